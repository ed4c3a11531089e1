"""A real GPU below compute-sanitizer as a candidate's device: torch_cuda without ledger and arena.

    torch_sanitized.install()
    torch_sanitized.connect(-1)
    torch_sanitized.use_arena({"file": "/given/inputs.bin", "bytes": n})
    x = torch_sanitized.tensor_from_address(offset, (2, 3), (3, 1), torch.float32)   # offset in the file

The sanitizer checks accesses against allocations, so every tensor must be one: torch's caching allocator is off
(PYTORCH_NO_CUDA_MEMORY_CACHING), and inputs are copied to memory of their own. Nothing that is computed here is compared.
CUPTI and the sanitizer exclude each other, so there is no ledger.
"""

import contextlib
import mmap

import torch
from torch_cuda import (  # noqa: F401  the device's interface, for musarun
    CpuOpRecorder,
    address_of,
    install,
    is_device_fault,
    is_on_device,
    load_extension,
    set_gpu,
    set_policy,
    take_refused,
)

CONNECTS_ON_REQUEST = True
_given = None          # (file, tensor of its bytes)


def seal():
    """Operators are watched in the ledger's run, not here."""


def connect(fd):
    """Makes the CUDA context; there is no ledger to connect to."""
    del fd
    torch.cuda.init()
    torch.empty(1, device="cuda")
    torch.cuda.synchronize()


@contextlib.contextmanager
def internal():
    yield


def synchronize():
    torch.cuda.synchronize()


def use_arena(arena):
    """The file with the inputs' bytes: {"file", "bytes"}."""
    global _given
    if _given is not None and _given[0] == arena["file"]:
        return
    with open(arena["file"], "rb") as file:
        data = mmap.mmap(file.fileno(), int(arena["bytes"]), access=mmap.ACCESS_COPY)
    _given = (arena["file"], torch.frombuffer(data, dtype=torch.uint8))


def tensor_from_address(offset, shape, strides, dtype):
    """A tensor on the GPU, in memory of its own that ends where the tensor ends; strides in elements."""
    if _given is None:
        raise RuntimeError("musacoder: no inputs were given")
    reach = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1 if all(shape) else 0
    if not reach:
        return torch.empty(shape, dtype=dtype, device="cuda")
    offset, size = int(offset), reach * dtype.itemsize
    flat = _given[1][offset:offset + size].clone().view(dtype).cuda()
    return torch.as_strided(flat, shape, strides)


def deliver(nodes, tensors, slots):
    """Results stay where they are."""
    del nodes, tensors, slots

