"""The request loop of the reference runner (docs/protocols.md §2): one JSON line in, one JSON line out."""

import argparse
import contextlib
import json
import os
import platform
import resource
import signal
import socket
import sys
import time
import traceback

MAX_LINE = 64 << 20
MAX_TASKS = 6
MAX_TASK_BYTES = 1 << 30
MAX_CLOSED_ON_DEVICE = 2    # closed tasks that keep their expected values on the device until memory is short
OPERATIONS = ("hello", "open", "trial", "compare", "needs", "audit", "close", "timed", "compare_timed", "baseline", "device",
              "release")


def isolate(fd):
    """Task code is not hostile but careless: what it prints goes nowhere, and it has no network."""
    os.set_inheritable(fd, False)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(nowhere, number)
    os.close(nowhere)
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"):
        os.environ[name] = "1"
    from .errors import NetworkRefused

    def refuse(*args, **kwargs):
        raise NetworkRefused("the reference runner has no network")

    original = socket.socket.connect

    def connect(self, address):
        return original(self, address) if self.family == socket.AF_UNIX else refuse()

    socket.socket.connect = connect
    socket.socket.connect_ex = lambda self, address: refuse()
    socket.getaddrinfo = refuse
    socket.create_connection = refuse


@contextlib.contextmanager
def alarm(seconds):
    """Raises TaskTimeout in Python code after `seconds`; a call into C that does not return is the client's to end."""
    from .errors import TaskTimeout
    if not seconds:
        yield
        return

    def fire(signum, frame):
        signal.setitimer(signal.ITIMER_REAL, 0.5)  # again, in case task code swallows the first
        raise TaskTimeout(seconds)

    before = signal.signal(signal.SIGALRM, fire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Server:
    default_device = "cuda"   # of requests that name none
    def __init__(self, run_dir):
        self.run_dir = run_dir
        self.tasks = {}       # cache key → (Task, uid), least recently used first
        self.handles = {}     # handle → cache key
        self.next_handle = 1
        self.next_uid = 1
        self.contexts = {}    # "cuda", "musa", "host" → device.task.Context

    # ---- operations ----

    def hello(self, request):
        import torch
        return {"python": platform.python_version(), "torch": torch.__version__, "threads": torch.get_num_threads(),
                "protocol": 1}

    def open(self, request):
        from .cases import Variant
        from .errors import TaskError
        from .session import MEMORY_BUDGET, STATE_SEED, WORK_BUDGET, Options, Task, cache_key
        code = request.get("code")
        if not isinstance(code, str):
            raise TaskError("infra:bad_request", "open needs 'code'")
        given = request.get("set") or {}
        device = request.get("device") or "cpu"
        context = None if device == "cpu" else self._context(device)
        options = Options(
            scale=request.get("scale") or ("auto" if device == "cpu" else "full"), set=tuple(sorted(given.items())),
            work_budget=float(request.get("work_budget") or WORK_BUDGET),
            memory_budget=float(request.get("memory_budget") or MEMORY_BUDGET),
            seed=int(request.get("seed", STATE_SEED)), device=device,
            device_memory=float(request.get("device_memory") or 0),
            inputs=None if request.get("inputs") is None else Variant.parse(request["inputs"], "'inputs': "))
        if options.scale not in ("auto", "full"):
            raise TaskError("infra:bad_request", f"scale is 'auto' or 'full', not {options.scale!r}")
        key = cache_key(code, options)
        started = time.monotonic()
        cached = key in self.tasks
        if cached:
            task, uid = self.tasks.pop(key)
        else:
            name = str(request.get("task") or "task")
            task, uid = Task(code, name, options) if context is None else self._on_device(code, name, options, context), self.next_uid
            self.next_uid += 1
        self.tasks[key] = (task, uid)
        handle, self.next_handle = self.next_handle, self.next_handle + 1
        self.handles[handle] = key
        self._evict()
        more = {}
        if context is not None:
            from .device.facts import describe
            more = {"device": describe(context.device), "gold": task.gold}
        return {**self._describe(task, uid), **more, "handle": handle, "cached": cached,
                "seconds": round(time.monotonic() - started, 4)}

    # ---- device mode ----

    def _context(self, name):
        from .errors import TaskError
        if name not in ("cuda", "musa", "host"):
            raise TaskError("infra:bad_request", f"device is 'cpu', 'cuda', 'musa' or (for tests) 'host', not {name!r}")
        if name not in self.contexts:
            from .device.task import Context
            self.contexts[name] = Context("cpu" if name == "host" else name, self.run_dir)
        return self.contexts[name]

    def _on_device(self, code, name, options, context):
        from .device.task import DeviceTask
        if not any(task.context is context for task, _ in self._open_tasks()):
            context.arena.sweep()
        try:
            return DeviceTask(code, name, options, context)
        finally:
            context.tidy()

    def _open_tasks(self):
        return [self.tasks[key] for key in set(self.handles.values())]

    def _device_task(self, request):
        from .device.task import DeviceTask
        from .errors import TaskError
        task, _ = self._task(request)
        if not isinstance(task, DeviceTask):
            raise TaskError("infra:bad_request", f"'{request.get('op')}' needs a task opened with \"device\":\"cuda\"")
        return task

    def timed(self, request):
        seed = self._integer(request, "seed") % (1 << 40)
        return self._device_task(request).lay_timed(self._integer(request, "calls"), seed, bool(request.get("move")))

    def compare_timed(self, request):
        return self._device_task(request).compare_timed(request.get("claims"))

    def baseline(self, request):
        from .device.baseline import Request, measure
        task = self._device_task(request)
        asked = Request(mode=request.get("mode") or "eager", precision=request.get("precision") or "strict",
                        calls=self._integer(request, "calls"), flush_bytes=int(request.get("flush_bytes") or 0),
                        warm_s=float(request.get("warm_s") or 0), seed=int(request.get("seed") or 0) % (1 << 40))
        try:
            return measure(task, asked, self.run_dir)
        finally:
            task.context.tidy()

    def device(self, request):
        from .device.facts import describe, free_bytes
        context = self._context(request.get("device") or self.default_device)
        return {**describe(context.device), "free_bytes": free_bytes(context.device)}

    def release(self, request):
        """Everything on the devices that no open task needs."""
        used = set(self.handles.values())
        for key in [k for k, (task, _) in self.tasks.items() if k not in used and task.context is not None]:
            self._drop(key)
        for context in self.contexts.values():
            context.relieve()
            if not any(task.context is context for task, _ in self._open_tasks()):
                context.arena.drop()
        return {}

    def _relieve(self):
        """Makes room on the devices; False where there is no device mode."""
        used = set(self.handles.values())
        for key in [k for k, (task, _) in self.tasks.items() if k not in used and task.context is not None]:
            self._drop(key)
        for context in self.contexts.values():
            context.relieve()
        return bool(self.contexts)

    def _describe(self, task, uid):
        from .tree import FileWriter, encode
        name = f"ref_{uid}_state.bin"
        state = []
        writer = FileWriter(self.run_dir, name)
        for label, kind, tensor in task.reference.state():
            place = writer.place(tensor.detach().contiguous())
            state.append({"name": label, "kind": kind, **encode(tensor.detach().contiguous()), **place})
        writer.close()
        for entry in state:
            entry.pop("t")
        training = bool(getattr(task.reference.module, "training", False))
        scaling = task.scaling
        return {"scaling": scaling.changes, "scaled": any(c["from"] != c["to"] for c in scaling.changes), "work": scaling.work,
                "work_full": scaling.work_full, "over_budget": scaling.over_budget,
                "init_args": encode(list(task.init_args)), "init_kwargs": encode(dict(task.init_kwargs)),
                "input_tree": encode(task.input_example), "output_tree": encode(task.output_example), "state": state,
                "computes": task.computes, "flops": task.trace.flops, "random": task.random, "training": training,
                "cases": task.cases, "reference_mutates": task.mutates, "ops": sorted(task.trace.ops), "seed": task.options.seed}

    def _task(self, request):
        from .errors import TaskError
        key = self.handles.get(request.get("handle"))
        if key is None or key not in self.tasks:
            raise TaskError("infra:bad_request", f"unknown handle {request.get('handle')!r}")
        return self.tasks[key]

    @staticmethod
    def _integer(request, name):
        from .errors import TaskError
        value = request.get(name)
        if type(value) is not int or value < 0:
            raise TaskError("infra:bad_request", f"'{name}' must be a non-negative integer, not {value!r}")
        return value

    def trial(self, request):
        from .distributions import label
        from .tree import FileWriter, encode
        task, uid = self._task(request)
        index, seed = self._integer(request, "index"), self._integer(request, "seed") % (1 << 62)
        if task.context is not None:
            return task.lay_trial(index, seed, bool(request.get("move")))
        trial = task.trial(index, seed)
        reply = {"distribution": label(trial.distribution), "seed": seed, "skipped": trial.skipped or None, "inputs": None}
        if not trial.skipped:
            writer = FileWriter(self.run_dir, f"ref_{uid}_trial_{index}.bin")
            reply["inputs"] = encode(trial.inputs, writer.place)
            writer.close()
        return reply

    def compare(self, request):
        from .tree import decode
        task, _ = self._task(request)
        if task.context is not None:
            return task.compare_claims(self._integer(request, "index"), request.get("outputs"))
        after = request.get("inputs_after")
        return task.compare(self._integer(request, "index"), decode(request.get("outputs"), self.run_dir),
                            None if after is None else decode(after, self.run_dir))

    def needs(self, request):
        from .errors import TaskError
        task, _ = self._task(request)
        names = request.get("names")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise TaskError("infra:bad_request", "needs takes 'names', a list of strings")
        return {"needs": task.needs(names)}

    def audit(self, request):
        from .audit import audit
        started = time.monotonic()
        task, _ = self._task(request)
        return {**audit(task.on_host() if task.context is not None else task), "seconds": round(time.monotonic() - started, 4)}

    def close(self, request):
        self._task(request)
        del self.handles[request["handle"]]
        self._evict()
        return {}

    def _evict(self):
        """Closed tasks stay for a while: the next candidate of the same task finds its gold values ready."""
        used = set(self.handles.values())
        closed = [k for k, (task, _) in self.tasks.items() if k not in used and task.context is not None]
        for key in closed[:max(0, len(closed) - MAX_CLOSED_ON_DEVICE)]:
            self._drop(key)
        for key in [k for k in self.tasks if k not in used and self.tasks[k][0].context is None]:
            over = len(self.tasks) > MAX_TASKS or sum(t.bytes() for t, _ in self.tasks.values() if t.context is None) > MAX_TASK_BYTES
            if not over:
                break
            self._drop(key)

    def _drop(self, key):
        task, uid = self.tasks.pop(key)
        if task.context is not None:
            task.close()
        for name in os.listdir(self.run_dir):
            if name.startswith(f"ref_{uid}_"):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(self.run_dir, name))

    # ---- the loop ----

    def answer(self, line):
        """The reply to one line. What does not fit on a device is tried once more after everything else there was freed."""
        reply = self._answer(line)
        if reply.get("status") == "infra:device_memory" and not reply["ok"] and self._relieve():
            reply = self._answer(line)
        return reply

    def _answer(self, line):
        import torch

        from .errors import TaskError, classify
        try:
            request = json.loads(line)
            name = request.get("op") if isinstance(request, dict) else None
            if name not in OPERATIONS:
                raise TaskError("infra:bad_request", f"unknown operation {name!r}")
            torch.set_default_dtype(torch.float32)
            torch.set_num_threads(self.threads)
            with alarm(float(request.get("timeout_s") or 0)):
                return {"ok": True, **getattr(self, name)(request)}
        except TaskError as error:
            return {"ok": False, "status": error.status, "message": error.message}
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            return {"ok": False, "status": "infra:bad_request", "message": f"not JSON: {error}"}
        except BaseException as error:  # noqa: BLE001  the loop goes on whatever happens
            named = classify(error, "reference runner")
            if named.status == "invalid_task:exception":
                named.status = "infra:reference_runner"
                named.message += "\n" + "".join(traceback.format_exception(error))[-4000:]
            return {"ok": False, "status": named.status, "message": named.message}

    threads = 1

    def serve(self, fd):
        channel = socket.socket(fileno=fd)
        reader = channel.makefile("rb", buffering=1 << 16)
        while True:
            line = reader.readline(MAX_LINE)
            if not line:
                return
            reply = json.dumps(self.answer(line), allow_nan=False, separators=(",", ":"))
            channel.sendall(reply.encode() + b"\n")


def warm():
    """The first run on meta tensors imports half of torch; that is part of starting up, not of a task's time."""
    import torch

    from .trace import Trace
    with torch.device("meta"), torch.no_grad(), Trace():
        torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.GELU())(torch.rand(2, 1, 4, 4))


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Runs task references for the judge (docs/protocols.md §2).")
    parser.add_argument("--fd", type=int, required=True, help="number of the inherited socket")
    parser.add_argument("--run-dir", required=True, help="folder for tensor files, shared with the judge")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch (default 1)")
    parser.add_argument("--vendor", choices=("cuda", "musa"), default="cuda", help="of the GPU, where one is used")
    parser.add_argument("--memory-limit", type=int, default=0, help="bytes of private memory; 0: no limit")
    options = parser.parse_args(arguments)
    if options.memory_limit:
        resource.setrlimit(resource.RLIMIT_DATA, (options.memory_limit, options.memory_limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    isolate(options.fd)
    import torch
    if options.vendor == "musa":   # before the names that stand for it elsewhere (musa_names)
        import gpu_vendor
        gpu_vendor.of(options.vendor).load()
        Server.default_device = options.vendor
    torch.set_num_threads(options.threads)
    torch.set_num_interop_threads(1)
    Server.threads = options.threads
    warm()
    Server(options.run_dir).serve(options.fd)
    sys.exit(0)
