"""The request loop of one candidate's process (docs/protocols.md, section 3).

    Runner(channel, torch_device, folder).serve()

Everything that the candidate raises ends as an `exception` event and the loop goes on; the judge decides what that means.
What this process says is a claim: the judge reads outputs from device memory itself.
"""

import gc
import linecache
import os
import random
import sys
import types

import torch

from . import bare, extensions, failures, imports, state, tree
from .channel import Channel, TooLong

_exit = os._exit
MAX_OPERATORS = 1000


class InterfaceError(Exception):
    """The candidate lacks what its interface needs."""


InterfaceError.__module__ = "builtins"   # shown without the runner's name


class Runner:
    def __init__(self, channel, torch_device, folder):
        self._channel = channel
        self._device = torch_device
        self._folder = folder
        self._filename = "candidate.py"
        self._builds = 0
        self._busy = False
        self._cpu_ops = []
        self._model_class = None
        self._model = None
        self._snapshot = None
        self._alive = []            # what the last outputs point to
        self._call = None           # token of the request, echoed in its events
        self._dialect = getattr(torch_device, "DIALECT", "cuda")
        self._blocker = imports.install(self._dialect)
        self.connect = None         # where the device is connected on request: what does it, once
        self._ops = {"start": self._start, "load": self._load, "construct": self._construct, "parameters": self._parameters,
                     "prepare": self._prepare, "forward": self._forward, "timed": self._timed}
        extensions.serve(self._request_build, torch_device.load_extension)
        torch.compile = _compile

    # ---- the loop

    def serve(self):
        while True:
            request = self._channel.receive()
            if request is None or request.get("op") == "exit":
                return
            stage = request["op"]
            self._call = request.get("call")
            self._cpu_ops = []
            self._busy = True
            try:
                event = self._ops[stage](request)
            except BaseException as error:  # noqa: BLE001  SystemExit and KeyboardInterrupt are the candidate's too
                event = self._failure(stage, error)
                del error
            self._busy = False
            try:
                self._send(event)
            except TooLong as error:
                self._send(self._failure(stage, error))

    def _send(self, event):
        event.setdefault("refused", self._take_refused())
        event.setdefault("cpu_ops", self._cpu_ops[:MAX_OPERATORS])
        event.setdefault("languages", self._blocker.take())
        if self._call is not None:
            event["call"] = self._call
        self._channel.send(event)

    def _take_refused(self):
        return [str(name)[:200] for name in self._device.take_refused()[:MAX_OPERATORS]]

    def _failure(self, stage, error):
        event = {"event": "exception", "stage": stage, **failures.describe(error, self._filename)}
        event["device_fault"] = self._device_fault(error)
        error.__traceback__ = None   # the frames hold tensors
        return event

    def _device_fault(self, error):
        check = getattr(self._device, "is_device_fault", None)
        if check is not None:
            try:
                return bool(check(error))
            except Exception:  # noqa: BLE001
                pass
        try:
            self._device.synchronize()
        except Exception:  # noqa: BLE001  an error of the device stays until the process ends
            return True
        return False

    def _address_of(self, tensor):
        return self._device.address_of(tensor) if self._device.is_on_device(tensor) else None

    def _request_build(self, extension):
        if not self._busy:
            raise RuntimeError("extensions can be built only while a candidate is loaded, constructed or called")
        self._builds += 1
        self._send({"event": "build", "id": self._builds, "extension": extension})
        reply = self._channel.receive()
        if reply is None:
            _exit(0)
        if reply.get("op") != "built" or reply.get("id") != self._builds:
            raise RuntimeError("the answer to a build request does not belong to it")
        return reply

    # ---- start

    def _start(self, request):
        del request
        connect, self.connect = self.connect, None
        connect()
        return {"event": "started"}

    # ---- load

    def _load(self, request):
        if request.get("bare_cuda") is not None:
            self._model_class = bare.make_model_class(request["bare_cuda"])
            return {"event": "loaded"}
        source = request["code"]
        path = os.path.join(self._folder, os.path.basename(request.get("filename") or "candidate.py"))
        self._filename = path
        with open(path, "w", encoding="utf-8", errors="replace") as file:
            file.write(source)
        linecache.cache[path] = (len(source), None, source.splitlines(True), path)
        module = types.ModuleType("candidate")
        module.__file__ = path
        sys.modules["candidate"] = module
        sys.argv = [path]
        exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)
        model_class = module.__dict__.get("ModelNew")
        if model_class is None:
            raise InterfaceError("the candidate defines no class ModelNew")
        if not isinstance(model_class, type) or not issubclass(model_class, torch.nn.Module):
            raise InterfaceError("ModelNew is not a class derived from torch.nn.Module")
        self._model_class = model_class
        return {"event": "loaded"}

    # ---- construct

    def _construct(self, request):
        if self._model_class is None:
            raise InterfaceError("nothing is loaded")
        args, kwargs = tree.arguments(request.get("init_args") or {"t": "list", "items": []})
        _, more = tree.arguments(request.get("init_kwargs") or {"t": "dict", "keys": [], "items": []})
        self._seed(request["seed"])
        self._model = self._model_class(*args, **kwargs, **more)
        if request.get("dtype"):
            self._model = state.narrow(self._model, request["dtype"])
        return {"event": "constructed", "state": state.describe(self._model), "training": bool(self._model.training)}

    def _seed(self, seed):
        seed = int(seed)
        torch.manual_seed(seed)
        getattr(torch, self._dialect).manual_seed_all(seed)
        random.seed(seed)
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            numpy.random.seed(seed & 0xFFFFFFFF)

    # ---- parameters

    def _parameters(self, request):
        model = self._model
        if model is None:
            raise InterfaceError("nothing is constructed")
        if getattr(model, "musarun_adopts_state", False):
            event = state.adopt_reference(model, request["state"])
        else:
            event = state.load_reference(model, request["state"])
        self._model = model = getattr(model, self._dialect)()
        self._snapshot = state.Snapshot(model)
        self._device.synchronize()
        return {"event": "parameters", **event}

    # ---- forward

    def _prepare(self, request):
        del request
        if self._snapshot is None:
            raise InterfaceError("nothing is constructed")
        self._alive = []
        self._snapshot.restore()
        self._prepared = True
        self._device.synchronize()
        gc.collect(0)
        return {"event": "prepared"}

    _prepared = False

    def _forward(self, request):
        if self._snapshot is None:
            raise InterfaceError("nothing is constructed")
        if not self._prepared:
            self._alive = []
            self._snapshot.restore()
        self._prepared = False
        if "arena" in request:
            self._device.use_arena(request["arena"])
        args, kwargs = tree.arguments(request["inputs"], self._device.tensor_from_address)
        self._seed(request["seed"])
        recorder = self._device.CpuOpRecorder()
        try:
            with torch.no_grad(), recorder:
                outputs = self._model(*args, **kwargs)
        finally:
            self._cpu_ops = [str(name)[:200] for name in recorder.ops][:MAX_OPERATORS]
        self._device.synchronize()
        encoder = tree.Encoder(self._address_of)
        node = encoder.encode(outputs)
        if "slots" in request:
            self._device.deliver(encoder.nodes, encoder.tensors, request["slots"])
            self._device.synchronize()
        self._alive = encoder.tensors
        return {"event": "output", "outputs": node}

    # ---- timed calls

    def _timed(self, request):
        """K calls in one request, each from a state and inputs that were put in place right before it.

        What this says of time is a claim too: the judge's own clock around the request bounds it, and every output is compared.
        """
        import timed_loop
        if self._snapshot is None:
            raise InterfaceError("nothing is constructed")
        self._alive = []
        device = self._device
        device.use_arena(request["arena"])
        args, kwargs = tree.arguments(request["place"], device.tensor_from_address)
        places = _tensors_of((args, kwargs))
        sets = [_tensors_of(tree.arguments(node, device.tensor_from_address)) for node in request["sets"]]
        claims = []

        def restore(source):
            def put():
                with torch.no_grad(), device.internal():
                    self._snapshot.restore()
                    for place, value in zip(places, source, strict=True):
                        place.copy_(value)
            return put

        def call():
            with torch.no_grad():
                return self._model(*args, **kwargs)

        def keep(slots):
            def take(outputs):
                encoder = tree.Encoder(self._address_of)
                node = encoder.encode(outputs)
                device.deliver(encoder.nodes, encoder.tensors, slots)
                claims.append(node)
            return take

        self._seed(request["seed"])
        loop = timed_loop.TimedLoop(int(request["flush_bytes"]), device=self._dialect, internal=device.internal)
        recorder = device.CpuOpRecorder()
        first_ms, warm_calls = 0.0, 0
        try:
            with recorder:
                if request.get("warm_s", 0) > 0:
                    first_ms, warm_calls = loop.warm(call, float(request["warm_s"]), restore(sets[0]))
                ms = loop.run([(restore(source), call, keep(slots))
                               for source, slots in zip(sets, request["slots"], strict=True)])
        finally:
            self._cpu_ops = [str(name)[:200] for name in recorder.ops][:MAX_OPERATORS]
        device.synchronize()
        return {"event": "timed", "ms": [float(value) for value in ms], "first_ms": float(first_ms), "warm_calls": int(warm_calls),
                "claims": claims}


def _tensors_of(value):
    """The tensors of nested arguments, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    return [tensor for item in value for tensor in _tensors_of(item)] if isinstance(value, (list, tuple, type({}.values()))) else []


def _compile(model=None, **options):
    """torch.compile without a compiler: the function itself. Its operators are judged as they are called."""
    return (lambda function: function) if model is None else model


def _home(torch_device):
    """Where the dialect's toolkit would be; candidates that look for it find a name."""
    if getattr(torch_device, "DIALECT", "cuda") == "musa":
        return {"MUSA_HOME": "/usr/local/musa"}
    return {"CUDA_HOME": "/usr/local/cuda"}


def run_candidate(sock, device_fd, request, torch_device):
    """The work of a freshly forked and confined process: `request` is the judge's spawn request."""
    folder = request["writable"]
    gpu = str(request.get("gpu", "h200"))
    os.environ.clear()
    os.environ.update({
        "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": folder, "TMPDIR": folder, "LANG": "C.UTF-8", "USER": "candidate",
        **_home(torch_device), "OMP_NUM_THREADS": "1", "TORCH_EXTENSIONS_DIR": os.path.join(folder, "extensions"),
        "MUSACODER_GPU": gpu, **{str(name): str(value) for name, value in request.get("environment", {}).items()}})
    os.chdir(folder)
    torch_device.set_policy(request.get("policy", "strict"))
    torch_device.set_gpu(gpu)
    runner = Runner(Channel(sock), torch_device, folder)

    def connect():
        torch_device.connect(device_fd)
        torch_device.seal()

    if getattr(torch_device, "CONNECTS_ON_REQUEST", False):
        runner.connect = connect
    else:
        connect()
    runner.serve()
    sys.stdout.flush()
