"""A stand-in for the vendor's torch_musa: a backend "musa" over one virtual GPU that all processes share.

For the tests of the backend musa only. It has what the runner processes and tests/musa use, no more; times are the host's.
"""

import contextlib
import ctypes
import os
import socket
import sys
import time
import types

import torch

__version__ = "2.7.1+standin"
_HOME = os.environ.get("MUSA_HOME") or "/usr/local/musa"
os.environ["MUSACODER_TORCH_BACKEND"] = "musa"
_driver = ctypes.CDLL(os.path.join(_HOME, "lib", "libmusa.so"), mode=os.RTLD_NOW | os.RTLD_GLOBAL)
_runtime = ctypes.CDLL(os.path.join(_HOME, "lib", "libmusart.so"), mode=os.RTLD_NOW | os.RTLD_GLOBAL)
_backend = ctypes.CDLL(os.path.join(_HOME, "lib", "libstandin_torch_musa.so"))
_connected = None


def init():
    global _connected
    if _connected == os.getpid():
        return
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.connect(os.path.join(_HOME, "gpu.sock"))
    if _backend.standin_connect(link.detach()) != 0:
        raise RuntimeError("MUSA error: the stand-in GPU does not answer")
    _connected = os.getpid()
    _driver.fake_context(1)


def synchronize(device=None):
    init()
    if _runtime.musaDeviceSynchronize() != 0:
        raise RuntimeError("MUSA error: an illegal memory access was encountered")


class Event:
    def __init__(self, enable_timing=False, **_):
        self._time = None

    def record(self, stream=None):
        synchronize()
        self._time = time.perf_counter()

    def synchronize(self):
        synchronize()

    def query(self):
        return True

    def elapsed_time(self, end):
        return (end._time - self._time) * 1e3


class Stream:
    musa_stream = 0

    def __init__(self, *_, **__):
        self.device = torch.device("musa", 0)

    def synchronize(self):
        synchronize()


@contextlib.contextmanager
def _nothing_entered(*_args, **_kwargs):
    yield


def get_device_properties(device=None):
    return types.SimpleNamespace(name="MTT S5000", uuid="standin-0001", major=3, minor=1, multi_processor_count=56, warp_size=32,
                                 total_memory=4 << 30, L2_cache_size=1 << 20, memory_clock_rate=20000000, memory_bus_width=640,
                                 max_threads_per_multi_processor=3072)


def _nothing(*_args, **_kwargs):
    return None


def _move(self, device=None, **_):
    return self.to("musa")


_musa = types.ModuleType("torch.musa")
_musa.__dict__.update(
    init=init, _lazy_init=init, is_initialized=lambda: _connected == os.getpid(), is_available=lambda: True, device_count=lambda: 1,
    current_device=lambda: 0, set_device=_nothing, synchronize=synchronize, Event=Event, Stream=Stream, stream=_nothing_entered,
    device=_nothing_entered, current_stream=lambda device=None: Stream(), get_device_properties=get_device_properties,
    get_device_name=lambda device=None: "MTT S5000", get_device_capability=lambda device=None: (3, 1), empty_cache=_nothing,
    mem_get_info=lambda device=None: (3 << 30, 4 << 30), memory_allocated=lambda device=None: 0, memory_reserved=lambda device=None: 0,
    max_memory_allocated=lambda device=None: 0, reset_peak_memory_stats=_nothing, set_per_process_memory_fraction=_nothing,
    manual_seed=_nothing, manual_seed_all=_nothing, get_rng_state=lambda device=None: torch.get_rng_state(), set_rng_state=_nothing,
    _is_in_bad_fork=lambda: False, get_amp_supported_dtype=lambda: [torch.float16, torch.bfloat16])
torch._register_device_module("musa", _musa)
sys.modules["torch.musa"] = _musa
torch.Tensor.musa = _move
torch.nn.Module.musa = lambda self, device=None: self.to("musa")
torch.Tensor.is_musa = property(lambda self: self.device.type == "musa")
torch.version.musa = "4.3.0 (stand-in)"
torch.backends.mudnn = types.ModuleType("torch.backends.mudnn")
torch.backends.mudnn.allow_tf32 = True   # not the vendor's default: the product must switch it off
