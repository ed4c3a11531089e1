"""torch_musa's names for task files that ask for a Moore Threads GPU: they run on the host here, as those for CUDA do.

    musa_names.install()     # once a process; does nothing where the vendor's own torch_musa is loaded

`torch.device("musa")`, `device="musa"`, `.musa()` and `import torch_musa` then open; trace.OnHost turns the device into the CPU.
"""

import importlib.machinery
import sys
import types

import torch


def _same(self, *_args, **_kwargs):
    return self


def _nothing(*_args, **_kwargs):
    return None


def install():
    if hasattr(torch.Tensor, "musa"):
        return
    torch.utils.rename_privateuse1_backend("musa")
    torch.Tensor.musa = torch.nn.Module.musa = _same
    torch.Tensor.is_musa = property(lambda self: False)
    musa = types.ModuleType("torch.musa")
    for name in ("set_device", "synchronize", "empty_cache", "manual_seed", "manual_seed_all", "_lazy_init"):
        setattr(musa, name, _nothing)
    musa.is_available = musa._is_in_bad_fork = lambda: False
    musa.device_count = musa.current_device = lambda: 0
    torch._register_device_module("musa", musa)
    package = types.ModuleType("torch_musa")
    package.__spec__ = importlib.machinery.ModuleSpec("torch_musa", None)
    package.is_available = musa.is_available
    sys.modules["torch_musa"] = package
    sys.modules["torch.musa"] = musa
