"""What runs in the untrusted process of one candidate, and what forks it.

  channel     bounded JSON lines over a socket
  tree        JSON trees <-> Python objects and tensors (docs/protocols.md, section 1)
  extensions  torch.utils.cpp_extension.load / load_inline, answered by the judge's builder
  musa_extension  the same for torch_musa.utils.musa_extension
  imports     a clear ImportError for kernel languages that are neither CUDA nor MUSA
  bare        ModelNew around a bare .cu or .mu file
  state       parameters, buffers and plain tensor attributes: copy, compare, snapshot, restore
  failures    exceptions -> events
  runner      the request loop (docs/protocols.md, section 3)
  spawn       fork, sandbox, supervision of one candidate
"""
