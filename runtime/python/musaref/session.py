"""Opened tasks: their scaled shape, their state, their trials with expected values.

    task = Task(code, name, Options(scale="auto"))
    trial = task.trial(index=1, seed=7)
    trial.skipped or compare(trial.expected, outputs)
"""

import hashlib
import json
import time
from collections import OrderedDict
from dataclasses import dataclass, field

import torch

from . import musa_names
from .cases import OWN, Variant, cases_of
from .compare import Expected, bitwise_equal, compare
from .distributions import Draw, label, name_of
from .errors import TaskError, classify
from .naive import NaiveSums
from .reference import Reference, call_get_init_inputs, call_get_inputs, default_dtype, perturbed, seed_all
from .scaling import MEMORY_BUDGET, WORK_BUDGET, Budget, Cost, Scaler
from .source import TaskSource, quiet
from .tolerance import EPS, SHAKE_SECONDS, Bounds
from .trace import OnHost, RoundedOps, Trace
from .tree import leaves, nbytes, writable

musa_names.install()

STATE_SEED = 42          # parameters are made under this seed, on both sides
TRIAL_CACHE_BYTES = 256 << 20
OWN_SEED = 42
OTHER_SEEDS = 16         # tried before a result counts as independent of the seed of its call
OTHER_SECONDS = 3.0
SHAPE = "shape"          # among what varies with the seed: the shapes of outputs


@dataclass(frozen=True)
class Options:
    scale: str = "auto"
    set: tuple = ()                      # ((name, value), …)
    work_budget: float = WORK_BUDGET
    memory_budget: float = MEMORY_BUDGET
    seed: int = STATE_SEED
    device: str = "cpu"                  # "cuda", or "host" for the device mode without a GPU (musaref/device)
    device_memory: float = 0.0           # bytes that a task of the device mode may take; 0: a share of the device's
    inputs: Variant | None = None        # of a case (musaref/cases.py), which may also set sizes to 0


def strict_precision():
    """Task code may have loosened or changed any of these; references are always exact float32."""
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    if hasattr(torch.backends, "mudnn"):
        torch.backends.mudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_accumulation = False
    torch.set_default_device(None)


class Trial:
    def __init__(self, index, seed, distribution):
        self.index, self.seed, self.distribution = index, seed, distribution
        self.skipped = ""
        self.inputs = None              # as the candidate gets them
        self.made_inputs = None         # a digest of inputs that were dropped and can be made again
        self.expected = None            # compare.Expected of the outputs
        self.expected_after = None      # compare.Expected of mutated inputs, by position
        self.gold = "float64"           # what gold is: float64, or the eager result in the task's dtype ("float32")
        self.drew = False               # whether forward drew random numbers
        self.varies = set()             # what other seeds of forward were seen to change (Task._varies)
        self.seeds_tried, self.seconds = 0, 0.0

    def bytes(self):
        return 6 * nbytes(self.inputs or []) + 6 * (nbytes(self.expected.eager) if self.expected else 0)


@dataclass
class Scaling:
    changes: list = field(default_factory=list)
    work: float = 0.0
    work_full: float = 0.0
    over_budget: bool = False


class Task:
    # What another place of execution does in its own way (musaref/device/task.py).
    context = None                       # what the tasks of one device share; None on the host
    device = None                        # where parameters, inputs and results are; None: on the host, untouched
    expected_type = Expected
    same = staticmethod(bitwise_equal)
    naive_sums = NaiveSums

    def place(self):
        """A context that decides where the tensors of task code go."""
        return OnHost()

    def draw(self, distribution, seed):
        return Draw(distribution, seed, narrow=self.variant.torch_dtype)

    def placed(self, inputs):
        return [t.detach() if isinstance(t, torch.Tensor) else t for t in inputs]

    def __init__(self, code, name="task", options=Options()):
        started = time.monotonic()
        self.name, self.options = name, options
        self.variant = options.inputs or OWN
        strict_precision()
        self.source = TaskSource(code, name)
        self.scaling = Scaling()
        self._open()
        self.trials = OrderedDict()
        self.latest = {}
        self.usual = {}
        self.summing = True
        self.seconds = time.monotonic() - started

    # ---- opening ----

    def _fixed(self):
        values = {}
        for name, value in self.options.set:
            keys = [s.key for s in self.source.sites if s.name == name] or \
                   [s.key for s in self.source.sites if s.name.split("[")[0] == name]
            if not keys:
                known = ", ".join(dict.fromkeys(s.name for s in self.source.sites)) or "none"
                raise TaskError("invalid_task:set", f"the task file has no size constant '{name}'; it has: {known}")
            least = 1 if self.options.inputs is None else 0
            if type(value) is not int or not least <= value < 1 << 40:
                raise TaskError("invalid_task:set", f"'{name}' must be a positive integer, not {value!r}")
            values.update(dict.fromkeys(keys, value))
        return values

    def _open(self):
        fixed = self._fixed()
        scaler = Scaler(self.source, Budget(self.options.work_budget, self.options.memory_budget), self.options.seed, fixed)
        if self.options.scale == "full":
            start = {s.key: s.value for s in self.source.sites if s.key not in fixed}
            cost = scaler.measure(start)
            known = isinstance(cost, Cost)
            self.scaling = Scaling(scaler.changes(start), cost.work if known else 0.0, cost.work if known else 0.0,
                                   known and not cost.fits(scaler.budget))
            self._build(dict(fixed))
            if not known:
                self.scaling.work = self.scaling.work_full = self.trace.work
            return
        plan = scaler.plan()
        tries = [plan.values, *plan.fallbacks]
        for i, values in enumerate(tries):
            try:
                self._build(values)
                break
            except TaskError as error:
                cost = scaler.measure({k: v for k, v in tries[i + 1].items() if k not in fixed}) if i + 1 < len(tries) else None
                if error.status != "invalid_task:exception" or not isinstance(cost, Cost) or cost.memory > 1 << 28:
                    raise
        full = plan.full.work if plan.full is not None else 0.0
        self.scaling = Scaling(scaler.changes(values), plan.cost.work if values is plan.values else self.trace.work,
                               full, plan.over_budget)

    def _stage(self, stage, function, *args):
        try:
            return function(*args)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  task code may raise anything, SystemExit included
            raise classify(error, stage) from error

    def _build(self, values):
        with torch.no_grad(), quiet(), OnHost():
            self.task = self._stage("load", self.source.execute, values)
            self.default_dtype = torch.get_default_dtype()
            torch.set_default_dtype(torch.float32)
            strict_precision()
            self.init_args, self.init_kwargs = self._stage("get_init_inputs", call_get_init_inputs, self.task)
        self.cases = cases_of(self.task, {name for s in self.source.sites for name in (s.name, s.name.split("[")[0])})
        for name in ("Model", "get_inputs"):
            if not callable(getattr(self.task, name, None)):
                raise TaskError("invalid_task:interface", f"'{name}' is not callable")
        self.reference = self._stage("Model.__init__", self._reference)
        inputs, drawn = self._stage("get_inputs", self.make_inputs, "own", OWN_SEED)
        unfit = self.variant.unfit(inputs, drawn, [t for _, _, t in self.reference.state()])
        if unfit:
            raise TaskError("invalid_task:unsupported", unfit)
        self.trace = Trace()
        with self.trace:
            outputs, after = self._stage("forward", self._run, inputs, OWN_SEED)
        if not any(isinstance(t, torch.Tensor) for _, t in leaves(outputs)):
            raise TaskError("invalid_task:interface", "forward returns no tensor")
        bad = next((t for _, t in leaves([inputs, outputs]) if isinstance(t, torch.Tensor) and not writable(t, self.device or "cpu")), None)
        if bad is not None:
            raise TaskError("invalid_task:unsupported", f"a tensor of layout {bad.layout} and dtype {bad.dtype} is not supported")
        self.random = self.reference.drew
        self.mutates = [i for i, (a, b) in enumerate(zip(inputs, after, strict=False)) if isinstance(a, torch.Tensor) and not self.same(a, b)]
        # From or to no elements there is nothing to compute, and no kernel that has to run.
        self.computes = self.trace.computes and (self.options.inputs is None or _elements(inputs) > 0 and _elements(outputs) > 0)
        self._keep_examples(inputs, outputs)

    def _keep_examples(self, inputs, outputs):
        """Of the task's own inputs and their outputs: the trees, and which outputs (by path) are finite."""
        self.finite = {path: bool(torch.isfinite(t).all()) for path, t in leaves(outputs)
                       if isinstance(t, torch.Tensor) and (t.is_floating_point() or t.is_complex())}
        self.input_example, self.output_example = inputs, outputs

    def _reference(self):
        with default_dtype(self.default_dtype):
            return Reference(self.task, self.init_args, self.init_kwargs, self.options.seed, self.device, self.place, self.variant.torch_dtype)

    def _run(self, inputs, seed, change=None, keep=True):
        strict_precision()
        with default_dtype(self.default_dtype):
            return self.reference.run(inputs, seed, change=change, keep=keep)

    def needs(self, names):
        """Whether the result depends on any of these parameters and buffers: other values in them change a bit of it.

        True as well for a name that the reference has not, and where the reference refuses the other values.
        """
        names = set(names)

        def change(name, tensor):
            if name in names:
                tensor.copy_(~tensor if tensor.dtype == torch.bool else tensor * 1.25 + 0.5 if tensor.is_floating_point() else tensor + 1)

        if not names <= {name for name, _, _ in self.reference.state()}:
            return True
        try:
            own = self._run(self.input_example, OWN_SEED)
            other = self._stage("forward", self._run, self.input_example, OWN_SEED, change)
        except TaskError as error:
            if error.status != "invalid_task:exception":
                raise
            return True
        pairs = list(zip(leaves(own), leaves(other), strict=False))
        return len(list(leaves(own))) != len(list(leaves(other))) or \
            any(not bitwise_equal(a, b) if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) else a != b
                for (_, a), (_, b) in pairs)

    def make_inputs(self, distribution, seed):
        """(inputs, number of random float tensors that the task drew)."""
        draw = self.draw(distribution, seed)
        seed_all(seed)
        with torch.no_grad(), quiet(), default_dtype(self.default_dtype), self.place(), draw:
            inputs = call_get_inputs(self.task)
        return self.variant.apply(self.placed(inputs)), draw.drawn

    # ---- trials ----

    def distribution(self, index):
        """Of a trial: by its index, or in every one the values that a case asks for."""
        return self.variant.values or name_of(index)

    def trial(self, index, seed):
        key = (self.distribution(index), seed)
        trial = self.trials.get(key)
        if trial is None:
            trial = self._make_trial(index, seed)
            self.trials[key] = trial
            self._made(key, trial)
        self.trials.move_to_end(key)
        self.latest[index] = trial
        return trial

    def _made(self, key, trial):
        """Keeps the cache of trials, to which this one was just added, within its bytes."""
        while len(self.trials) > 1 and sum(t.bytes() for t in self.trials.values()) > TRIAL_CACHE_BYTES:
            self.trials.popitem(last=False)

    def _make_trial(self, index, seed, name=None):
        name = name or self.distribution(index)
        trial = Trial(index, seed, name)
        own = name == "own"
        if self.variant.values and not own and not self.usual:
            self._make_trial(0, OWN_SEED, "own")     # tells how large results usually are
        try:
            trial.inputs, drawn = self._stage("get_inputs", self.make_inputs, name, seed)
            if not own and drawn == 0:
                trial.skipped = "the task draws no random float inputs"
                return trial
            outputs, after = self._stage("forward", self._run, trial.inputs, seed)
            trial.drew = self.reference.drew
            gold, gold_after, shaken, naive = self._measure(trial, outputs, after)
        except TaskError as error:
            if own or error.status != "invalid_task:exception":
                raise
            trial.skipped = f"the reference refuses these inputs: {error.message[:300]}"
            return trial
        try:
            trial.expected = self.expected_type(outputs, gold, shaken, self.trace.terms, naive)
        except (KeyError, IndexError, TypeError) as error:
            raise TaskError("invalid_task:exception", f"the float64 run returns another structure: {error}") from None
        trial.expected_after = {i: self.expected_type(after[i], gold_after[i], (), self.trace.terms) for i in self.mutates}
        if own:
            self.usual = {path: leaf.rms for path, _, leaf in trial.expected.leaves if isinstance(leaf, Bounds)}
        else:
            trial.skipped = self._unfit(trial)
        return trial

    def _measure(self, trial, outputs, after):
        """(gold, what gold leaves of the inputs, shaken runs, naive run) for what the reference made of the trial's inputs."""
        started = time.monotonic()
        gold, gold_after = self._stage("forward in float64", self.reference.gold, trial.inputs, trial.seed)
        quick = time.monotonic() - started < SHAKE_SECONDS
        return (gold, gold_after, self._shaken(trial.inputs, trial.seed) if quick else [],
                self._naive(trial.inputs, trial.seed, outputs) if quick else None)

    def _shaken(self, inputs, seed):
        """Gold with rounding added, in two ways (see tolerance)."""
        noise = torch.Generator().manual_seed(seed)
        eps = EPS[self._dtype(inputs)]
        return [self._stage("forward in float64", self.reference.gold, inputs, seed,
                            lambda tree: perturbed(tree, eps / 2, noise))[0],
                self._stage("forward in float64", self.reference.gold, inputs, seed, None, RoundedOps(eps, noise))[0]]

    def _naive(self, inputs, seed, eager):
        """The result with naive float32 sums; None where the task has none, or cannot be run so."""
        if not self.summing:
            return None
        mode = self.naive_sums()
        try:
            with default_dtype(self.default_dtype):
                outputs, _ = self.reference.run(inputs, seed, mode)
        except Exception:  # task code that cannot do without an exact operator; there is no naive result then
            self.summing = False
            return None
        self.summing = mode.changed
        alike = all(isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.shape == b.shape or
                    not isinstance(a, torch.Tensor) for (_, a), (_, b) in zip(leaves(eager), leaves(outputs), strict=False))
        return outputs if mode.changed and alike else None

    def _dtype(self, inputs):
        """The coarsest floating dtype among inputs and parameters."""
        found = [t.dtype for _, t in leaves(inputs) if isinstance(t, torch.Tensor)] + [t.dtype for _, _, t in self.reference.state()]
        found = [d for d in found if d in EPS]
        return max(found, key=lambda d: EPS[d]) if found else torch.float32

    def _unfit(self, trial):
        """Why the reference's result on this distribution says nothing, or an empty string."""
        for path, _, leaf in trial.expected.leaves:
            if not isinstance(leaf, Bounds):
                continue
            if not leaf.gold_finite:
                if self.finite.get(path, True):
                    return f"the reference is not finite on {label(trial.distribution)} inputs"
            elif not leaf.eager_finite:
                return f"{str(leaf.dtype).removeprefix('torch.')} overflows on {label(trial.distribution)} inputs"
            if leaf.ill_conditioned(self.usual.get(path, 0.0)):
                return (f"ill-conditioned on {label(trial.distribution)} inputs: the honest error is {leaf.honest:.3g} "
                        f"of values of {max(leaf.rms, self.usual.get(path, 0.0)):.3g}")
        return ""

    # ---- judging ----

    def compare(self, index, outputs, inputs_after=None):
        trial = self.latest.get(index)
        if trial is None:
            raise TaskError("infra:bad_request", f"compare before trial {index}")
        if trial.expected is None:
            raise TaskError("infra:bad_request", f"trial {index} was skipped: {trial.skipped}")
        return self.verdict(trial, outputs, inputs_after)

    def verdict(self, trial, outputs, inputs_after=None):
        """The `compare` reply for a trial that was not skipped."""
        result = compare(trial.expected, outputs)
        if self._by_chance(trial, result):
            result.update({"status": "inconclusive:random", "message":
                           "the reference draws random numbers in forward, and its own result changes with their seed; "
                           f"the candidate's differs from the one under this seed: {result['message']}"})
        if inputs_after is not None:
            status, changed = self._mutation(trial, inputs_after)
            if changed and (result["pass"] or not status.startswith("inconclusive")):
                result.update({"pass": False, "status": status, "message": changed})
        return result

    def _by_chance(self, trial, result):
        """Whether all that is wrong in the result is what other seeds change in the reference's own."""
        if result["status"] == "correctness_error:shape":
            return self._varies(trial, {SHAPE})
        return result["status"] == "correctness_error:values" and self._varies(trial, set(result["wrong"]))

    def _varies(self, trial, what):
        """Whether other seeds of the forward call change all of this: paths of outputs, positions of mutated inputs, SHAPE."""
        while trial.drew and not trial.varies >= what and trial.seeds_tried < OTHER_SEEDS and trial.seconds < OTHER_SECONDS:
            trial.seeds_tried += 1
            started = time.monotonic()
            try:
                outputs, after = self._stage("forward", self._run, trial.inputs, trial.seed + trial.seeds_tried)
            except TaskError as error:
                if error.status != "invalid_task:exception":
                    raise
                continue
            result = compare(trial.expected, outputs)
            trial.varies.update(result["wrong"])
            if result["status"] == "correctness_error:shape":
                trial.varies.add(SHAPE)
            trial.varies.update(i for i in self.mutates if not compare(trial.expected_after[i], after[i])["pass"])
            trial.seconds += time.monotonic() - started
        return trial.varies >= what

    def _mutation(self, trial, inputs_after):
        """(status, sentence) when the inputs are not as the reference leaves them, else two empty strings."""
        cheating = "cheating:input_mutation"
        if not isinstance(inputs_after, (list, tuple)) or len(inputs_after) != len(trial.inputs):
            raise TaskError("infra:bad_request", "inputs_after does not match the inputs")
        for i, (kept, left) in enumerate(zip(trial.inputs, inputs_after, strict=False)):
            if i in trial.expected_after:
                if isinstance(left, torch.Tensor) and not self.same(left, kept) and \
                        not compare(trial.expected_after[i], left)["pass"]:
                    by_chance = self._varies(trial, {i})
                    return ("inconclusive:random" if by_chance else cheating,
                            f"input {i} was written to, and not as the reference writes to it" +
                            (", which is by chance" if by_chance else ""))
                if isinstance(left, torch.Tensor) and self.same(left, kept):
                    return cheating, f"input {i} was left alone; the reference changes it in place"
                continue
            for (path, a), (_, b) in zip(leaves(kept), leaves(left), strict=False):
                if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and not self.same(a, b):
                    return cheating, f"input {i}{path} was written to; the reference leaves it alone"
        return "", ""

    def bytes(self):
        return 3 * nbytes([t for _, _, t in self.reference.state()]) + sum(t.bytes() for t in self.trials.values())


def _elements(tree):
    return sum(t.numel() for _, t in leaves(tree) if isinstance(t, torch.Tensor))


def cache_key(code, options):
    return hashlib.sha256(json.dumps([code, repr(options)]).encode()).hexdigest()
