"""The names that torch_musa adds to torch, and what CUDA's names do beside them, on the virtual GPU.

    torch_names_musa.install(torch_device)       # by torch_device.install(dialect="musa")

`torch.musa` is torch's module of the backend "musa"; `torch.backends.mudnn` holds the switches of muDNN, none of which does
anything here. torch is then one that was built without CUDA, as it is beside torch_musa: `torch.cuda.is_available()` is
False, and whatever needs CUDA says so and what to write instead.
"""

import sys
import types

import torch

MUSA_VERSION = "4.3.0"   # of the SDK whose names these are


def no_cuda(*_args, **_kwargs):
    raise AssertionError("Torch not compiled with CUDA enabled: this candidate runs on a MUSA device. Write device=\"musa\", "
                         ".musa() and torch.musa in the place of CUDA's names")


def _module(name, **members):
    module = types.ModuleType(name)
    for key, value in members.items():
        setattr(module, key, value)
    sys.modules[name] = module
    return module


def install(device):
    """`device`: the module torch_device, whose functions torch.musa is made of."""
    C = torch.cuda
    C.is_available = lambda: False
    C.device_count = lambda: 0
    C._lazy_init = C.init = no_cuda
    torch.Tensor.cuda = torch.nn.Module.cuda = no_cuda
    torch.version.cuda = None
    torch.version.musa = MUSA_VERSION
    torch.backends.cuda.is_built = lambda: False
    torch.backends.cudnn.is_available = lambda: False
    torch.backends.cudnn.is_acceptable = lambda tensor: False
    from musarun import extensions
    from torch.utils import cpp_extension
    cpp_extension.CUDAExtension = lambda *_args, **_kwargs: extensions.needs_cuda("CUDAExtension")
    cpp_extension.CUDA_HOME = None

    musa = device.register_device_module("musa", device.device_functions())
    sys.modules["torch.musa"] = musa
    musa.amp = _module("torch.musa.amp", autocast=None, GradScaler=torch.amp.GradScaler)
    musa.memory = _module("torch.musa.memory", **{name: getattr(musa, name) for name in (
        "empty_cache", "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "mem_get_info")})
    musa.__version__ = MUSA_VERSION
    torch.backends.mudnn = _module("torch.backends.mudnn", allow_tf32=False, enabled=True, benchmark=False, deterministic=False,
                                   is_available=lambda: True, version=lambda: 3000)
