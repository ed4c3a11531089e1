"""silu(gate) up of a common product: forward and gradient."""

KERNELS = ["swiglu.cu"]
BINDING = r"""
std::vector<torch::Tensor> forward(torch::Tensor gate_up) {
  auto out = torch::empty({gate_up.size(0), gate_up.size(1) / 2}, gate_up.options());
  TORCH_CHECK(mc_swiglu_forward(TYPE, gate_up.data_ptr(), out.data_ptr(), out.size(0), out.size(1), nullptr) == 0, "launch");
  return {out};
}
std::vector<torch::Tensor> backward(torch::Tensor gate_up, torch::Tensor to_out) {
  auto out = torch::empty_like(gate_up);
  TORCH_CHECK(mc_swiglu_backward(TYPE, to_out.data_ptr(), gate_up.data_ptr(), out.data_ptr(), to_out.size(0), to_out.size(1), nullptr) == 0, "launch");
  return {out};
}
"""
SWIGLU = """
def swiglu(gate_up):
    gate, up = gate_up.chunk(2, 1)
    return torch.nn.functional.silu(gate) * up
"""
CASES = {
    "forward": (SWIGLU + "def run(gate_up):\n    return (swiglu(gate_up),)\n", "[normal(ROWS, 2 * INNER)]"),
    "backward": (
        SWIGLU
        + """
def run(gate_up, to_out):
    gate_up = gate_up.detach().requires_grad_()
    with torch.enable_grad():
        out = swiglu(gate_up)
    return torch.autograd.grad(out, [gate_up], to_out)
""",
        "[normal(ROWS, 2 * INNER), normal(ROWS, INNER)]",
    ),
}
SIZES = [{"ROWS": 19, "INNER": 40}]
