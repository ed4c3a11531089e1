"""How long torch itself takes for a task: eager or compiled, in strict or TF32 precision, in the loop that times candidates.

    measure(task, Request(mode="compile", precision="tf32", calls=30, flush_bytes=100 << 20, warm_s=2.0, seed=1))
    # {"ms": [...], "loop_ms": …, "first_ms": …, "warm_calls": …}, or {"unavailable": reason}; loop_ms: the whole loop
"""

import contextlib
import os
import signal
import time
from dataclasses import dataclass

import torch
from timed_loop import TimedLoop

from ..errors import TaskError, TaskTimeout, classify
from ..reference import _copied, _plain_attributes, clone_tree, construct, default_dtype, narrow, seed_all
from ..session import strict_precision
from ..source import quiet
from ..trace import OnHost
from ..tree import leaves, nbytes

INPUTS_SHARE = 0.1       # of the device's memory: inputs of different calls
MODES, PRECISIONS = ("eager", "compile"), ("strict", "tf32")
MOST_CALLS = 10_000


@dataclass(frozen=True)
class Request:
    mode: str = "eager"
    precision: str = "strict"
    calls: int = 10
    flush_bytes: int = 0
    warm_s: float = 1.0
    seed: int = 0

    def __post_init__(self):
        for name, value, known in (("mode", self.mode, MODES), ("precision", self.precision, PRECISIONS)):
            if value not in known:
                raise TaskError("infra:bad_request", f"'{name}' is {' or '.join(known)}, not {value!r}")
        if not 1 <= self.calls <= MOST_CALLS:
            raise TaskError("infra:bad_request", f"'calls' must lie between 1 and {MOST_CALLS}, not {self.calls}")


def built(task):
    """The task's module as its users have it: built on the host under the seed, then moved whole."""
    if "module" not in task.baselines:
        with torch.no_grad(), quiet(), default_dtype(task.default_dtype), OnHost():
            module = construct(task.task, task.init_args, task.init_kwargs, task.options.seed)
            if task.variant.dtype:
                narrow(module, task.variant.torch_dtype)
        module.to(task.device)
        parameters = {id(p) for p in module.parameters()}
        for part in module.modules():
            for name, value in _copied(_plain_attributes(part), lambda t: t if id(t) in parameters else t.to(task.device)).items():
                vars(part)[name] = value
        task.baselines["module"] = module
    return task.baselines["module"]


def compiled(task, run_dir):
    if "compiled" not in task.baselines:
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(run_dir, "inductor"))
        task.baselines["compiled"] = torch.compile(built(task))
    return task.baselines["compiled"]


@contextlib.contextmanager
def precision(kind):
    strict_precision()
    try:
        if kind == "tf32":
            torch.backends.cuda.matmul.allow_tf32 = True
            torch.backends.cudnn.allow_tf32 = True
            if hasattr(torch.backends, "mudnn"):
                torch.backends.mudnn.allow_tf32 = True   # one switch for matrix products and convolutions
        yield
    finally:
        strict_precision()


def _sets(task, request):
    """Inputs of one call after the other: as many different ones as fit."""
    first, _ = task.make_inputs(task.distribution(0), request.seed)
    count = max(1, min(request.calls, int(INPUTS_SHARE * task.context.total // max(1, nbytes(first)))))
    return [first, *(task.make_inputs(task.distribution(0), request.seed + k)[0] for k in range(1, count))]


def _copy(source, target):
    for (_, s), (_, t) in zip(leaves(source), leaves(target), strict=True):
        if isinstance(s, torch.Tensor):
            t.copy_(s)


def _time(task, request, module, around):
    sets = _sets(task, request)
    place = clone_tree(sets[0])

    def call():
        return module(*place)

    def restore(k):
        return lambda: _copy(sets[k % len(sets)], place)

    with torch.no_grad(), quiet(), default_dtype(task.default_dtype), precision(request.precision), around:
        seed_all(request.seed)
        loop = TimedLoop(request.flush_bytes, device=task.device)
        first_ms, calls = loop.warm(call, request.warm_s, restore(0))
        began = time.perf_counter()
        ms = loop.run([(restore(k), call, None) for k in range(request.calls)])
        loop_ms = (time.perf_counter() - began) * 1e3
    return {"ms": ms, "loop_ms": loop_ms, "first_ms": first_ms, "warm_calls": calls}


def measure(task, request, run_dir):
    """The `baseline` reply without "ok". Errors: infra:device, infra:device_memory (eager)."""
    try:
        if request.mode == "compile":
            if task.device.type == "musa":
                return {"unavailable": "there is no baseline of torch.compile on MUSA"}
            return _time(task, request, compiled(task, run_dir), contextlib.nullcontext())
        try:
            return _time(task, request, built(task), contextlib.nullcontext())
        except Exception as error:  # task code that makes its tensors on the host: all of them go to the device then
            if classify(error, "baseline").status.startswith("infra"):
                raise
        return _time(task, request, built(task), task.place())
    except TaskTimeout as error:
        signal.setitimer(signal.ITIMER_REAL, 0)
        return _unavailable(task, request, f"{request.mode} took longer than {error.args[0]:g} s")
    except Exception as error:  # whatever a compiler may raise
        named = classify(error, request.mode)
        if named.status == "infra:device" or (named.status == "infra:device_memory" and request.mode == "eager"):
            raise named from error
        return _unavailable(task, request, named.message[:1500])


def _unavailable(task, request, reason):
    if request.mode == "compile":
        forget(task)
    return {"unavailable": reason}


def forget(task):
    """Drops the task's modules, and what torch.compile keeps for them."""
    if task.baselines.pop("compiled", None) is not None:
        with contextlib.suppress(Exception):
            torch._dynamo.reset()
    task.baselines.clear()
