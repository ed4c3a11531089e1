"""A Moore Threads GPU as a candidate's device, for the backend "musa": torch_cuda's code over torch_musa and the MUSA runtime.

    torch_musa_gpu.install()                     # once, in the zygote: imports the vendor's torch_musa, touches no device
    torch_musa_gpu.connect(fd)                   # in the child: starts the ledger (MUPTI), makes the context

The vendor's extension builder is answered by the judge's, as torch's own is on CUDA. Untested on hardware (docs/musa.md).
"""

import os

import gpu_vendor
import torch_cuda

DIALECT = "musa"
torch_cuda.vendor = gpu_vendor.MUSA
CONNECTS_ON_REQUEST = torch_cuda.CONNECTS_ON_REQUEST
CpuOpRecorder = torch_cuda.CpuOpRecorder
set_policy, set_gpu, seal, connect = torch_cuda.set_policy, torch_cuda.set_gpu, torch_cuda.seal, torch_cuda.connect
internal, synchronize, is_device_fault = torch_cuda.internal, torch_cuda.synchronize, torch_cuda.is_device_fault
is_on_device, address_of, use_arena = torch_cuda.is_on_device, torch_cuda.address_of, torch_cuda.use_arena
tensor_from_address, deliver, take_refused = torch_cuda.tensor_from_address, torch_cuda.deliver, torch_cuda.take_refused
allowed_operators, load_extension = torch_cuda.allowed_operators, torch_cuda.load_extension


def install(policy="strict", dialect="musa"):
    if dialect != "musa":
        raise RuntimeError(f"a Moore Threads GPU runs candidates in the MUSA dialect, not {dialect}")
    os.environ["MUSACODER_LEDGER_VENDOR"] = "musa"   # read when the ledger's library is loaded
    torch_cuda.install(policy)
    import extension_calls
    import torch
    from musarun import musa_extension as ours
    from torch_musa.utils import musa_extension as theirs
    extension_calls.device_type = "musa"
    for name in ("load", "load_inline", "MUSAExtension", "BuildExtension"):
        setattr(theirs, name, getattr(ours, name))
    torch.backends.mudnn.allow_tf32 = False
