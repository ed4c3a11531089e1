"""The virtual GPU as torch's `cuda` device, or as torch_musa's `musa` device.

    torch_device.install()                       # once, before a candidate's code: patches torch
    torch_device.install(dialect="musa")         # the other one: a process has one of them
    torch_device.connect(fd)                     # in the child: the socket of musacoder-vgpud
    module = torch_device.load_extension(path)   # a built extension with its functions as callables
    x = torch_device.tensor_from_address(address, (2, 3), (3, 1), torch.float32)
    with torch_device.CpuOpRecorder() as recorder:      # one forward: the policy is in force
        y = model(x)
    recorder.ops                                 # compute operators that ran on CPU tensors: ["aten::mm"]
    torch_device.take_refused()                  # operators refused (strict) or booked (report) on the device
    torch_device.address_of(y)

`.cuda()`, `device="cuda"`, `x.is_cuda`, `x.device`, `torch.cuda.*` mean this device; a second one does not exist. In the MUSA
dialect these are `.musa()`, `device="musa"`, `x.is_musa`, `torch.musa.*`, and the CUDA names do what they do in a torch without
CUDA (torch_names_musa.py). Device tensors are torch.Tensor objects of torch's PrivateUse1 backend (libmusacoder_torch.so, found beside this file's folder in
../lib or by MUSACODER_TORCH_LIBRARY). Everything raises RuntimeError as torch does; faults of the device start with
"CUDA error", in either dialect: the judge translates what it shows.
"""

import contextlib
import ctypes
import functools
import os
import sys
import types

import extension_calls
import torch
import torch.utils._device

_HERE = os.path.dirname(os.path.abspath(__file__))
_CUDA = torch.device("cuda", 0)
_TensorBase = torch._C.TensorBase
_raw_device = _TensorBase.device.__get__
_installed = False
_ops = None
_gpu = ""
_recording = False
_VGPU = None   # torch.device of the backend, set by install()
DIALECT = "cuda"   # of candidates' names: cuda or musa, set by install()


# ---- the library -----------------------------------------------------------------------------------------------------

def library_path():
    """Path of libmusacoder_torch.so."""
    given = os.environ.get("MUSACODER_TORCH_LIBRARY")
    if given:
        return given
    for folder in (_HERE, os.path.realpath(_HERE)):
        path = os.path.join(os.path.dirname(folder), "lib", "libmusacoder_torch.so")
        if os.path.exists(path):
            return path
    raise RuntimeError("libmusacoder_torch.so was not found; build the target musacoder_torch or set MUSACODER_TORCH_LIBRARY")


def install(policy="strict", dialect="cuda"):
    """Loads the library and makes torch's `cuda` (or `musa`) mean the virtual GPU. Touches no device. Idempotent."""
    global _installed, _ops, _VGPU, _CUDA, DIALECT
    if _installed:
        if dialect != DIALECT:
            raise RuntimeError(f"this process already speaks {DIALECT.upper()}")
        set_policy(policy)
        return
    backend = "vgpu" if dialect == "cuda" else "musa"
    os.environ["MUSACODER_TORCH_BACKEND"] = backend   # the library registers under this name when it is loaded
    ctypes.CDLL(library_path(), mode=os.RTLD_NOW | os.RTLD_LOCAL)
    _ops = types.SimpleNamespace(**{name: getattr(torch.ops.musacoder, name).default for name in (
        "connect", "connected", "set_policy", "seal", "unsupported", "enforce", "take_refused", "record_cpu_ops", "take_cpu_ops", "allowed",
        "load_extension", "call", "from_device", "device_address", "synchronize", "last_error", "properties")})
    DIALECT = dialect
    _VGPU = torch.device(backend, 0)
    if dialect == "musa":
        _CUDA = _VGPU
        extension_calls.device_type = "musa"
    _patch_tensor()
    _patch_modules()
    if dialect == "musa":
        import torch_names_musa
        torch_names_musa.install(sys.modules[__name__])
    else:
        _patch_cuda()
    _patch_misc()
    _mode = _Cuda()
    _mode.__enter__()
    _installed = True
    set_policy(policy)


def set_policy(policy):
    """"strict": an operator that is not allowed raises; "report": it runs on the CPU and is booked."""
    _ops.set_policy(policy)


def seal():
    """From now on the policy stays as it is and can be put in force, but never out of it, whoever asks. For candidates' processes."""
    _ops.seal()


def set_gpu(name):
    """The GPU whose name and properties torch.cuda reports before the device is connected."""
    global _gpu
    _gpu = str(name)


def connect(fd):
    """Speaks to the device through this socket from now on. Once per process, after fork."""
    _ops.connect(int(fd))


def synchronize():
    """Waits for the device; raises its fault."""
    _ops.synchronize()


def is_device_fault(error):
    """Whether an exception reports a fault of the device (illegal access, launch failure, …), not a Python error."""
    text = str(error)
    return isinstance(error, RuntimeError) and text.startswith("CUDA error") and "invalid device ordinal" not in text


def _device_of(tensor):
    """The device that torch itself sees: torch's getter would ask the patched property while our mode is entered."""
    with torch._C.DisableTorchFunction():
        return _raw_device(tensor)


def is_on_device(tensor):
    return _device_of(tensor).type == _VGPU.type


def address_of(tensor):
    """Device address of the tensor's element (0, …, 0)."""
    with torch._C.DisableTorchFunction():
        return _ops.device_address(tensor)


def tensor_from_address(address, shape, strides, dtype):
    """A tensor over device memory that it does not own; strides in elements."""
    with torch._C.DisableTorchFunction():
        return _ops.from_device(int(address), [int(n) for n in shape], [int(n) for n in strides], dtype)


def load_extension(path):
    """The module of a built extension (see extension_calls.load)."""
    return extension_calls.load(_ops, path)


def take_refused():
    """Operators refused or booked since the last call: ["aten::mm"]."""
    return list(_ops.take_refused())


def allowed_operators():
    """Names of the operators that a candidate may call on the device inside forward, without "aten::"."""
    return list(_ops.allowed())


class CpuOpRecorder:
    """One forward: the policy is in force on the device, compute operators on CPU tensors are noted in `ops`.

    Views, copies, creation and tensors of one element do not count. Outside of it any operator runs, on the CPU where the
    device has none.
    """

    def __init__(self):
        self.ops = []

    def __enter__(self):
        global _recording
        _ops.take_cpu_ops()
        _ops.record_cpu_ops(True)
        _ops.enforce(True)
        _recording = True
        return self

    def __exit__(self, *_):
        global _recording
        _recording = False
        _ops.enforce(False)
        _ops.record_cpu_ops(False)
        self.ops = list(_ops.take_cpu_ops())


# ---- devices by name -------------------------------------------------------------------------------------------------

def _map_device(value):
    """What "cuda" means, in any form that torch takes; everything else unchanged."""
    if isinstance(value, str):
        if value == DIALECT or value == DIALECT + ":0":
            return _VGPU
        kind, colon, _ = value.partition(":")
        if kind == DIALECT and colon:
            torch.device(value)   # its own complaint about the form
            raise RuntimeError("CUDA error: invalid device ordinal")
        if kind == "cuda":
            torch.cuda._lazy_init()   # in the MUSA dialect: there is no CUDA, and why
        return value
    if isinstance(value, torch.device):
        if value.type == DIALECT:
            if value.index:
                raise RuntimeError("CUDA error: invalid device ordinal")
            return _VGPU
        if value.type == "cuda":
            torch.cuda._lazy_init()
        return value
    return value


def _map_index(value):
    if isinstance(value, int) and not isinstance(value, bool):
        if value != 0:
            raise RuntimeError("CUDA error: invalid device ordinal")
        return _VGPU
    return _map_device(value)


_TAKES_DEVICE_FIRST = set()     # functions whose first positional argument after self may be a device


class _Cuda(torch.overrides.TorchFunctionMode):
    """Stays entered for the life of the process."""

    def __torch_function__(self, function, types_, args=(), kwargs=None):
        if kwargs and "device" in kwargs:
            kwargs = {**kwargs, "device": _map_index(kwargs["device"])}
            generator = kwargs.get("generator")
            if generator is not None and generator.device.type == _VGPU.type:
                kwargs["generator"] = None
        if len(args) > 1 and function in _TAKES_DEVICE_FIRST:
            args = (args[0], _map_index(args[1]), *args[2:])
        return function(*args, **(kwargs or {}))


def _patch_tensor():
    T = torch.Tensor
    base_repr = T.__repr__
    base_deepcopy = T.__deepcopy__
    base_type = _TensorBase.type
    base_numpy = _TensorBase.numpy
    base_pin = _TensorBase.pin_memory
    _TAKES_DEVICE_FIRST.update({T.to, T.type, torch.as_tensor, T.pin_memory})

    def on_device(self):
        return _device_of(self).type == _VGPU.type

    def device(self):
        found = _device_of(self)
        return _CUDA if found.type == _VGPU.type else found

    def get_device(self):
        found = _device_of(self)
        return 0 if found.type == _VGPU.type else -1 if found.index is None else found.index

    def move(self, device=None, non_blocking=False, memory_format=torch.preserve_format):
        _map_index(_CUDA if device is None else device)
        return _raw_to(self, _VGPU, non_blocking=non_blocking, memory_format=memory_format)

    def shown(self, *, tensor_contents=None):
        if not on_device(self):
            return base_repr(self, tensor_contents=tensor_contents)
        with torch._C.DisableTorchFunction(), _unjudged():
            text = base_repr(_raw_to(self.detach(), torch.device("cpu")))
        text = text[:-1] + f", device='{DIALECT}:0'"
        if isinstance(self, torch.nn.Parameter):
            return "Parameter containing:\n" + text + (", requires_grad=True)" if self.requires_grad else ")")
        return text + (", requires_grad=True)" if self.requires_grad else ")")

    def deepcopy(self, memo):
        if not on_device(self) or not self.is_leaf:
            return base_deepcopy(self, memo)
        if id(self) in memo:
            return memo[id(self)]
        copy = self.detach().clone()
        if isinstance(self, torch.nn.Parameter):
            copy = torch.nn.Parameter(copy, self.requires_grad)
        elif self.requires_grad:
            copy.requires_grad_()
        copy.__dict__.update(self.__dict__)
        memo[id(self)] = copy
        return copy

    def type_(self, dtype=None, non_blocking=False, **kwargs):
        if dtype is None:
            name = base_type(self)
            return name.replace(f"torch.{_VGPU.type}.", f"torch.{DIALECT}.") if on_device(self) else name
        if isinstance(dtype, str) and dtype.startswith(f"torch.{DIALECT}."):
            return move(self).type(getattr(torch, dtype.removeprefix(f"torch.{DIALECT}.")).dtype)
        return base_type(self, dtype, non_blocking, **kwargs)

    def numpy(self, *args, **kwargs):
        if on_device(self):
            raise TypeError(f"can't convert {DIALECT}:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
                            "memory first.")
        return base_numpy(self, *args, **kwargs)

    def pin_memory(self, device=None):
        return self if not on_device(self) else base_pin(self)

    _raw_to = _TensorBase.to
    T.device = property(device)
    T.get_device = get_device
    setattr(T, "is_" + DIALECT, property(on_device))
    setattr(T, DIALECT, move)
    T.__repr__ = shown
    T.__deepcopy__ = deepcopy
    T.type = type_
    T.numpy = numpy
    T.pin_memory = pin_memory
    T.is_pinned = lambda self, device=None: False
    T.record_stream = lambda self, stream: None
    _TAKES_DEVICE_FIRST.add(_TensorBase.to)


@contextlib.contextmanager
def _unjudged():
    """Printing works on a copy in host memory and is not computing."""
    recording = _recording
    if recording:
        _ops.record_cpu_ops(False)
    try:
        yield
    finally:
        if recording:
            _ops.record_cpu_ops(True)


def _patch_modules():
    M = torch.nn.Module
    base_apply = M._apply
    base_to = M.to

    def apply(self, fn, recurse=True):
        # torch assigns new parameters when the kind of device changes; on CUDA the objects stay, and candidates rely on it.
        def keep(tensor):
            out = fn(tensor)
            if isinstance(tensor, torch.nn.Parameter) and out is not tensor and _device_of(out) != _device_of(tensor):
                try:
                    torch.utils.swap_tensors(tensor, torch.nn.Parameter(out, tensor.requires_grad))
                    return tensor
                except RuntimeError:
                    return out
            return out
        return base_apply(self, keep, recurse)

    def move(self, device=None):
        return self._apply(lambda tensor: getattr(tensor, DIALECT)(device))

    def to(self, *args, **kwargs):
        if args:
            args = (_map_index(args[0]), *args[1:])
        if "device" in kwargs:
            kwargs["device"] = _map_index(kwargs["device"])
        return base_to(self, *args, **kwargs)

    M._apply = apply
    setattr(M, DIALECT, move)
    M.to = to


# ---- torch.cuda ------------------------------------------------------------------------------------------------------

_GPUS = {"h200": ("NVIDIA H200", [9, 0, 132, 32, 1024, 2048, 65536, 1980000, 3201000, 6144, 49152, 232448, 233472,
                                  150754820096, 62914560, 150754820096]),
         "s5000": ("MTT S5000", [3, 1, 56, 32, 1024, 3072, 131072, 1500000, 20000000, 640, 196608, 196608, 196608,
                                 85802709647, 62914560, 85802709647])}


def _properties(device=None):
    if device is not None:
        _map_index(device)
    name, n = _ops.properties() if _ops.connected() else _GPUS.get(_gpu) or _GPUS["h200" if DIALECT == "cuda" else "s5000"]
    return types.SimpleNamespace(
        name=name, major=n[0], minor=n[1], multi_processor_count=n[2], warp_size=n[3], max_threads_per_block=n[4],
        max_threads_per_multi_processor=n[5], regs_per_multiprocessor=n[6], clock_rate=n[7], memory_clock_rate=n[8],
        memory_bus_width=n[9], shared_memory_per_block=n[10], shared_memory_per_block_optin=n[11],
        shared_memory_per_multiprocessor=n[12], total_memory=n[13], L2_cache_size=n[14], is_integrated=0,
        is_multi_gpu_board=0, gcnArchName="", uuid="")


class Stream:
    """A stream of a device that runs one thing at a time."""

    def __init__(self, device=None, priority=0, **_):
        self.priority = priority
        self.device = _CUDA
        self.device_index = 0
        self.cuda_stream = self.musa_stream = 0
        self.stream_id = 0

    def synchronize(self):
        synchronize()

    def query(self):
        return True

    def wait_event(self, event):
        pass

    def wait_stream(self, stream):
        pass

    def record_event(self, event=None):
        event = Event() if event is None else event
        event.record(self)
        return event

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def __eq__(self, other):
        return isinstance(other, Stream)

    def __hash__(self):
        return 0


class Event:
    """Times are the host's and say nothing about a GPU."""

    def __init__(self, enable_timing=False, blocking=False, interprocess=False, external=False):
        self._time = None

    def record(self, stream=None):
        import time
        synchronize()
        self._time = time.perf_counter()

    def wait(self, stream=None):
        pass

    def query(self):
        return True

    def synchronize(self):
        synchronize()

    def elapsed_time(self, end):
        if self._time is None or end._time is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return (end._time - self._time) * 1e3


class _StreamContext(contextlib.AbstractContextManager):
    def __init__(self, stream=None):
        self.stream = stream

    def __exit__(self, *_):
        return None


class _DeviceContext(contextlib.AbstractContextManager):
    def __init__(self, device=None):
        if isinstance(device, torch.Tensor):
            device = None
        if device is not None and device != -1:
            _map_index(device)

    def __exit__(self, *_):
        return None


def _nothing(*_args, **_kwargs):
    return None


def _lacks(feature, name):
    """Ends in the verdict unsupported:cuda:<feature>, which is not held against the candidate."""
    _ops.unsupported("cuda:" + feature)
    raise RuntimeError(f"{name} is not available on the virtual GPU; build the kernel with torch.utils.cpp_extension")


def device_functions():
    """The functions of torch.cuda and torch.musa alike."""
    stream = Stream()

    def current_stream(device=None):
        return stream

    def check_device(device=None):
        if device is not None:
            _map_index(device)

    return {
        "is_available": lambda: True, "device_count": lambda: 1, "current_device": lambda: 0, "is_initialized": lambda: True,
        "init": _nothing, "_lazy_init": _nothing, "set_device": check_device, "empty_cache": _nothing, "ipc_collect": _nothing,
        "synchronize": lambda device=None: (check_device(device), synchronize())[1],
        "current_stream": current_stream, "default_stream": current_stream, "set_stream": _nothing,
        "get_device_properties": _properties, "get_device_name": lambda device=None: _properties(device).name,
        "get_device_capability": lambda device=None: (_properties(device).major, _properties(device).minor),
        "get_arch_list": lambda: ["sm_90"] if DIALECT == "cuda" else ["mp_31"], "is_bf16_supported": lambda including_emulation=True: True,
        "mem_get_info": lambda device=None: (_properties().total_memory, _properties().total_memory),
        "memory_allocated": lambda device=None: 0, "max_memory_allocated": lambda device=None: 0,
        "memory_reserved": lambda device=None: 0, "max_memory_reserved": lambda device=None: 0,
        "reset_peak_memory_stats": _nothing, "reset_max_memory_allocated": _nothing,
        "manual_seed": _nothing, "manual_seed_all": _nothing, "seed": _nothing, "seed_all": _nothing,
        "initial_seed": torch.initial_seed,
        "get_rng_state": lambda device=None: torch.get_rng_state(), "get_rng_state_all": lambda: [torch.get_rng_state()],
        "set_rng_state": _nothing, "set_rng_state_all": _nothing,
        "Stream": Stream, "ExternalStream": Stream, "Event": Event, "stream": _StreamContext, "StreamContext": _StreamContext,
        "device": _DeviceContext, "device_of": _DeviceContext,
        "can_device_access_peer": lambda *_: False, "utilization": lambda *_: 0,
    }


def _patch_cuda():
    C = torch.cuda
    replacements = device_functions()
    for name, value in replacements.items():
        setattr(C, name, value)
        module = sys.modules.get("torch.cuda.memory")
        if module is not None and hasattr(module, name):
            setattr(module, name, value)
        module = sys.modules.get("torch.cuda.random")
        if module is not None and hasattr(module, name):
            setattr(module, name, value)
    # What compiles and loads kernels at run time, torch.cuda._compile_kernel among it, gets its libraries from here.
    import torch.cuda._utils as utils
    utils._get_gpu_rtc_library = utils._get_nvrtc_library = lambda: _lacks("nvrtc", "NVRTC")
    utils._get_gpu_runtime_library = utils._get_cuda_library = lambda: _lacks("driver_module", "The CUDA driver's module loader")
    torch._C._cuda_jiterator_compile_and_launch_kernel = lambda *_: _lacks("jiterator", "torch.cuda.jiterator")
    torch.version.cuda = torch.version.cuda or "13.0"
    torch.backends.cuda.is_built = lambda: True
    torch.backends.cudnn.is_available = lambda: True
    # No cuDNN runs here: recurrent layers then take torch's own operators, which are judged like any other.
    torch.backends.cudnn.is_acceptable = lambda tensor: False
    register_device_module("vgpu", {name: replacements[name] for name in (
        "is_available", "device_count", "current_device", "is_initialized", "synchronize", "current_stream", "manual_seed",
        "manual_seed_all", "get_rng_state", "set_rng_state", "set_device", "Stream", "Event", "stream")})


def register_device_module(name, functions):
    """torch looks for torch.<backend name> when it meets the device."""
    module = types.ModuleType("torch." + name)
    for key, value in functions.items():
        setattr(module, key, value)
    module._is_in_bad_fork = lambda: False
    module._lazy_init = _nothing
    module.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]
    torch._register_device_module(name, module)
    return module


class _NoAutocast(contextlib.ContextDecorator):
    """autocast changes which operators of torch run in half precision; candidates' kernels see no difference."""

    def __init__(self, *_args, **_kwargs):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


def _patch_misc():
    base_generator = torch.Generator

    class Generator(base_generator):
        def __new__(cls, device="cpu"):
            mapped = _map_index(device)
            return base_generator.__new__(base_generator, "cpu" if mapped is _VGPU else mapped)

    torch.Generator = Generator

    class Autocast(torch.autocast):
        def __new__(cls, device_type=DIALECT, *args, **kwargs):
            if torch.device(device_type).type in ("cuda", DIALECT):
                return _NoAutocast()
            return super().__new__(cls)

    for module in (torch, torch.amp, torch.amp.autocast_mode):
        module.autocast = Autocast
    getattr(torch, DIALECT).amp.autocast = _NoAutocast
    base_load = torch.load

    @functools.wraps(base_load)
    def load(f, map_location=None, **kwargs):
        moved = isinstance(map_location, (str, torch.device)) and _map_device(map_location) is _VGPU
        out = base_load(f, map_location="cpu" if moved else map_location, **kwargs)
        return out

    torch.load = load

    # `with torch.device("cuda")` and set_default_device: torch puts their mode below ours, where no name is mapped any more.
    context = torch.utils._device.DeviceContext
    base_init = context.__init__

    def init(self, device):
        base_init(self, _map_device(torch.device(device)))

    context.__init__ = init
    base_default = torch.get_default_device

    def get_default_device():
        found = base_default()
        return _CUDA if found.type == _VGPU.type else found

    torch.get_default_device = get_default_device
