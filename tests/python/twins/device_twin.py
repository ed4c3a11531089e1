"""An in-memory twin of torch_device: "device memory" is the file behind the descriptor given to connect().

Device tensors are CPU tensors whose storage lies in that file, so that the test's judge sees the same bytes. Extensions are
Python files. An address is a file offset plus BASE.
"""

import mmap
import os
import runpy
import types

import torch

BASE = 0x700000000000
_memory = None
_base = 0
_next = 0
_refused = []
_policy = "strict"
_sealed = False


class DeviceFault(RuntimeError):
    pass


class CpuOpRecorder:
    def __init__(self):
        self.ops = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ops = list(_cpu_ops)
        _cpu_ops.clear()


_cpu_ops = []


def install(policy="strict"):
    torch.Tensor.cuda = to_device
    torch.nn.Module.cuda = lambda module, *_: module._apply(to_device)


def set_policy(policy):
    global _policy
    if _sealed and policy != _policy:
        raise RuntimeError("the policy is sealed")
    _policy = policy


def set_gpu(name):
    """This device pretends to be none in particular."""


def seal():
    global _sealed
    _sealed = True


def connect(fd):
    global _memory, _base, _next
    size = os.fstat(fd).st_size
    _memory = mmap.mmap(fd, size)
    _base = torch.frombuffer(_memory, dtype=torch.uint8).data_ptr()
    _next = size // 2   # the lower half belongs to the judge


def to_device(tensor, *_):
    global _next
    if is_on_device(tensor):
        return tensor
    address = BASE + _next
    _next += (tensor.numel() * tensor.element_size() + 511) // 256 * 256
    out = tensor_from_address(address, tensor.shape, tensor.contiguous().stride(), tensor.dtype)
    return out.copy_(tensor.detach())


def is_on_device(tensor):
    return _memory is not None and _base <= tensor.data_ptr() < _base + len(_memory)


def address_of(tensor):
    return tensor.data_ptr() - _base + BASE


def tensor_from_address(address, shape, strides, dtype):
    reach = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if all(shape) else 0
    if reach == 0:
        return torch.empty(tuple(shape), dtype=dtype)
    flat = torch.frombuffer(_memory, dtype=dtype, count=reach, offset=address - BASE)
    return torch.as_strided(flat, tuple(shape), tuple(strides))


def synchronize():
    pass


def is_device_fault(error):
    return isinstance(error, DeviceFault)


def take_refused():
    out = list(_refused)
    _refused.clear()
    return out


def load_extension(path):
    module = types.ModuleType("extension")
    module.__dict__.update(runpy.run_path(path, {"device": __import__("device_twin")}))
    return module
