"""A real GPU as a candidate's device: the counterpart of torch_device for the backend "cuda", and below torch_musa_gpu.

    torch_cuda.install()                         # once, in the zygote: loads libraries, touches no device
    torch_cuda.connect(fd)                       # in the child: starts the ledger on fd, makes the CUDA context
    torch_cuda.use_arena({"id": 3, "bytes": n, "handle": "…"})
    x = torch_cuda.tensor_from_address(offset, (2, 3), (3, 1), torch.float32)     # offset in the arena
    with torch_cuda.CpuOpRecorder() as recorder: # one forward
        y = model(x)
    torch_cuda.deliver([node], [y], [{"arena": offset, "nbytes": n}])

torch is torch here: nothing of it is patched. The arena is device memory of the reference runner, mapped by its CUDA IPC
handle; inputs come from it and outputs go to it. The ledger (libmusacoder_ledger.so) watches launches and copies from inside
this process and answers the judge on a thread of its own.
"""

import contextlib
import ctypes
import os
import types

import extension_calls
import gpu_vendor
import torch

CONNECTS_ON_REQUEST = True   # a context can fail to be made, and that is not the candidate's fault
MEMORY_SHARE = 0.6           # of the GPU's memory, by torch's allocator; the rest is the reference's and the next candidates'
_HERE = os.path.dirname(os.path.abspath(__file__))
_ops = None
_ledger = None
_arena = None          # (id, address, bytes)
vendor = gpu_vendor.CUDA


def _library(name, variable):
    given = os.environ.get(variable)
    if given:
        return given
    for folder in (_HERE, os.path.realpath(_HERE)):
        path = os.path.join(os.path.dirname(folder), "lib", name)
        if os.path.exists(path):
            return path
    raise RuntimeError(f"{name} was not found; build the project, or set {variable}")


def install(policy="strict"):
    """Loads the libraries. Touches no device: the process may still fork. Idempotent."""
    global _ops, _ledger
    if _ops is None:
        vendor.load()
        ctypes.CDLL(_library(vendor.shim, vendor.shim_variable), mode=os.RTLD_NOW | os.RTLD_LOCAL)
        _ops = types.SimpleNamespace(**{name: getattr(torch.ops.musacoder, name).default for name in (
            "set_policy", "seal", "enforce", "take_refused", "record_cpu_ops", "take_cpu_ops", "allowed", "load_extension", "call",
            "from_device", "set_note")})
        # What torch does when CUDA starts, but for its own kernels in Triton, which candidates are kept from importing.
        torch.cuda._queued_calls[:] = [(call, *rest) for call, *rest in torch.cuda._queued_calls
                                       if "triton" not in getattr(call, "__name__", "")]
        _ledger = ctypes.CDLL(_library("libmusacoder_ledger.so", "MUSACODER_LEDGER_LIBRARY"))
        _ledger.mcl_start.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t]
        _ledger.mcl_internal.argtypes = [ctypes.c_int]
        _ledger.mcl_internal.restype = None
    set_policy(policy)


def set_policy(policy):
    """"strict" or "report": under which name operators are booked. Neither stops them."""
    _ops.set_policy(policy)


def set_gpu(name):
    """The device is what it is."""


def seal():
    """From now on operators are watched and booked until the process ends, whoever asks for what."""
    _ops.seal()


def connect(fd):
    """Starts the ledger on the judge's descriptor, then makes the CUDA context. Once per process, after fork."""
    error = ctypes.create_string_buffer(1024)
    if _ledger.mcl_start(int(fd), error, len(error)) != 0:
        raise RuntimeError(f"the ledger did not start: {error.value.decode('utf-8', 'replace')}")
    _ops.set_note(ctypes.cast(_ledger.mcl_note, ctypes.c_void_p).value)
    with internal():
        gpu = vendor.torch()
        gpu.init()
        gpu.set_per_process_memory_fraction(MEMORY_SHARE)
        torch.empty(1, device=vendor.type)
        gpu.synchronize()


@contextlib.contextmanager
def internal():
    """What this thread launches inside is the runner's own work, not the candidate's."""
    _ledger.mcl_internal(1)
    try:
        yield
    finally:
        _ledger.mcl_internal(-1)


def synchronize():
    """Waits for the device; raises its fault. The ledger's records are complete afterwards."""
    vendor.torch().synchronize()
    _ledger.mcl_synchronized()


def is_device_fault(error):
    """Whether an exception reports a fault of the device (illegal access, launch failure, …), not a Python error."""
    return vendor.is_fault(error)


def is_on_device(tensor):
    return tensor.device.type == vendor.type


def address_of(tensor):
    """Device address of the tensor's element (0, …, 0)."""
    return tensor.data_ptr()


# ---- the arena -------------------------------------------------------------------------------------------------------

class _Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 64)]


def use_arena(arena):
    """Maps the judge's device memory: {"id", "bytes", "handle": 128 hex digits}. The same id again is no work."""
    global _arena
    if _arena is not None and _arena[0] == arena["id"]:
        return
    runtime = vendor.runtime()
    with internal():
        if _arena is not None:
            vendor.torch().synchronize()
            vendor.call(runtime, "IpcCloseMemHandle", ctypes.c_void_p(_arena[1]))
            _arena = None
        handle = _Handle()
        ctypes.memmove(ctypes.byref(handle), bytes.fromhex(arena["handle"]), 64)
        address = ctypes.c_void_p()
        code = vendor.call(runtime, "IpcOpenMemHandle", ctypes.byref(address), handle, ctypes.c_uint(1))
        if code != 0:
            raise RuntimeError(f"musacoder: the arena could not be mapped: {vendor.type}Error {code}")
    _arena = (arena["id"], address.value, int(arena["bytes"]))


def tensor_from_address(offset, shape, strides, dtype):
    """A tensor over the arena from this offset; strides in elements."""
    if _arena is None:
        raise RuntimeError("musacoder: no arena is mapped")
    return _ops.from_device(_arena[1] + int(offset), [int(n) for n in shape], [int(n) for n in strides], dtype)


def deliver(nodes, tensors, slots):
    """Copies outputs to their slots in the arena, dense and contiguous, and says so in their nodes ("slot": index).

    An output that does not fit (other size, not on the device) is left out: its claim alone is judged.
    """
    with internal(), torch.no_grad():
        for index, (node, tensor, slot) in enumerate(zip(nodes, tensors, slots, strict=False)):
            if tensor.device.type != vendor.type or tensor.numel() * tensor.element_size() != int(slot["nbytes"]):
                continue
            strides, step = [], 1
            for n in reversed(tensor.shape):
                strides.insert(0, step)
                step *= max(n, 1)
            if tensor.numel():
                tensor_from_address(slot["arena"], tensor.shape, strides, tensor.dtype).copy_(tensor.detach())
            node["slot"] = index


# ---- operators -------------------------------------------------------------------------------------------------------

def take_refused():
    """Operators booked since the last call: ["aten::mm"]."""
    return list(_ops.take_refused())


def allowed_operators():
    """Names of the operators that a candidate may call on the device inside forward, without "aten::"."""
    return list(_ops.allowed())


class CpuOpRecorder:
    """One forward: operators are watched, compute operators on CPU tensors are noted in `ops`."""

    def __init__(self):
        self.ops = []

    def __enter__(self):
        _ops.take_cpu_ops()
        _ops.record_cpu_ops(True)
        _ops.enforce(True)
        return self

    def __exit__(self, *_):
        _ops.enforce(False)
        _ops.record_cpu_ops(False)
        self.ops = list(_ops.take_cpu_ops())


def load_extension(path):
    """The module of a built extension (see extension_calls.load)."""
    return extension_calls.load(_ops, path)
