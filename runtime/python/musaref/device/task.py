"""A task whose reference runs on a device: its trials in the arena, its timed calls, and their verdicts.

    context = Context(torch.device("cuda"), run_dir)
    task = DeviceTask(code, name, Options(scale="full", device="cuda"), context)
    task.lay_trial(index=1, seed=7)           # the `trial` reply: where inputs lie and where outputs belong
    task.compare_claims(1, claims)            # the `compare` reply

Modules are built on the host under the seed, as the candidate's are, and moved; all else happens in the device's memory.
"""

import math
import time
from collections import OrderedDict

import gpu_vendor
import torch

from ..compare import _result, compare, form
from ..distributions import Draw, label
from ..errors import TaskError
from ..naive import NaiveSums
from ..reference import clone_tree
from ..scaling import Budget, Cost, Scaler
from ..session import OWN_SEED, Options, Scaling, Task
from ..tolerance import EPS
from ..tree import OnCpu, decode, encode, layout_of, leaves, nbytes, tree_map
from .arena import ALIGN, SLACK, Arena, Plan
from .expected import DeviceExpected
from .facts import free_bytes, total_bytes
from .place import OnDevice
from .tiles import checksum, digest, memory, same, tile_of, tiles

MEMORY_SHARE = 0.35       # of the device's memory: inputs, outputs, parameters and buffers of a task together
INPUT_SHARE = 0.6         # of which inputs may take this part
CACHE_SHARE = 0.35        # of the device's memory: inputs and expected values of trials, over all open tasks
TIMED_SHARE = 0.25        # of the device's memory: the arena of timed calls
TIMED, TIMED_KEPT = "timed", 256 << 20   # results of timed calls up to so many bytes are kept like trials
INPUTS_KEPT = 256 << 20   # larger inputs of a trial are made again from their seed whenever they are laid out
MOST_SETS = 64
MOST_CALLS = 1000
GOLD_SECONDS = 3.0        # no float64 where one run takes longer
GOLD_FLOPS = 3e13         # or would: convolutions in float64 reach some 10 TFLOPS
GOLD_MEMORY = 2.3         # float64 takes this many times what the eager run took
CHEAP_SECONDS = 0.3       # shaking and naive sums only where one float64 run is as fast as this
CHEAP_ELEMENTS = 1 << 29  # and where inputs and outputs together have no more elements
NAIVE_STEPS = 32768       # naive sums are added term by term for all rows at once: at most so many terms a row,
NAIVE_ON_HOST = 1 << 24   # or on the host, where they have no more elements than this
EMPTY_SHARE = 0.1         # memory that torch holds without using it goes back when it is more than this share
UNREPEATABLE = {"status": "inconclusive:random", "message": "the task's inputs are not the same each time they are made from one seed"}


class NotCheap(Exception):
    """A naive sum that would take too long."""


class DeviceNaive(NaiveSums):
    """Naive sums in the device's memory: all rows at once, one term a step; short ones on the host."""

    def in_order(self, x, dims, keepdim):
        dims = sorted(d % x.dim() for d in dims) if dims else list(range(x.dim()))
        count = math.prod(x.shape[d] for d in dims)
        if x.numel() <= NAIVE_ON_HOST:
            return super().in_order(x.cpu(), dims, keepdim).to(x.device)
        if count > NAIVE_STEPS:
            raise NotCheap
        kept = [d for d in range(x.dim()) if d not in dims]
        rows = x.permute(*dims, *kept).reshape([count] + [x.shape[d] for d in kept])
        total = torch.zeros(rows.shape[1:], dtype=x.dtype, device=x.device)
        for row in rows:
            total += row
        return total.reshape([1 if d in dims else x.shape[d] for d in range(x.dim())]) if keepdim else total

    def running(self, x, dim):
        if x.numel() > NAIVE_ON_HOST:
            raise NotCheap
        return super().running(x.cpu(), dim).to(x.device)


class Context:
    """What all open tasks of one device share: the arena and the budget of cached trials. One at a time uses it."""

    def __init__(self, device, run_dir):
        self.device = torch.device(device)
        self.vendor = gpu_vendor.of(self.device)   # None: the host
        if self.vendor:
            gpu = self.vendor.torch()
            if not gpu.is_available():
                raise TaskError("infra:device", f"torch sees no {self.vendor.type.upper()} device here")
            self.device = torch.device(self.vendor.type, gpu.current_device())
        self.total = total_bytes(self.device)
        self.arena = Arena(self.device, run_dir)
        self.cached = OrderedDict()      # (task, key of its trial) → bytes, oldest first
        self.moves = 0

    def synchronize(self):
        if self.vendor:
            self.vendor.torch().synchronize(self.device)

    def keep(self, task, key, size):
        """Books a trial; the oldest ones of all tasks go when there are too many bytes."""
        self.cached.pop((task, key), None)
        self.cached[(task, key)] = size
        while len(self.cached) > 1 and sum(self.cached.values()) > CACHE_SHARE * self.total:
            self.evict()

    def evict(self):
        (task, key), _ = self.cached.popitem(last=False)
        task.forget(key)

    def forget(self, task):
        for entry in [e for e in self.cached if e[0] is task]:
            del self.cached[entry]

    def room(self, need):
        """Whether `need` bytes can be allocated, after trials (but the latest) were given up for it."""
        while free_bytes(self.device) < need and len(self.cached) > 1:
            self.evict()
            self.tidy(0.0)
        return free_bytes(self.device) >= need

    def tidy(self, share=EMPTY_SHARE):
        """Memory that torch's allocator holds and does not use goes back to the device, where the candidate needs it."""
        if self.vendor:
            gpu = self.vendor.torch()
            idle = gpu.memory_reserved(self.device) - gpu.memory_allocated(self.device)
            if idle > share * self.total:
                gpu.empty_cache()

    def relieve(self):
        """Everything that can be made again is freed, outgrown arenas too."""
        while self.cached:
            self.evict()
        self.arena.sweep()
        self.tidy(0.0)

    def shift(self, move):
        """Where the next layout begins: at 0, or at another place each time it is to move."""
        if not move:
            return 0
        self.moves += 1
        return ALIGN * (1 + self.moves * 37 % (SLACK // ALIGN - 1))


class Laid:
    """What lies in the arena: a trial, or the sets of a timed request."""

    def __init__(self, task, plan, inputs, slots):
        self.task, self.plan = task, plan
        self.inputs = inputs          # slots of the inputs at which forward is called, in tree order
        self.slots = slots            # a list of (slot, dtype) for each call
        self.trial = self.index = None
        self.seeds = self.sets = self.model = None


class DeviceTask(Task):
    expected_type = DeviceExpected
    same = staticmethod(same)
    naive_sums = DeviceNaive

    def __init__(self, code, name, options, context):
        self.context, self.device = context, context.device
        self.double = True            # whether gold is worth trying in float64
        self.peak = 0                 # bytes that one eager run took at most, inputs' copies and results included
        self.watch = True             # whether `peak` is still being looked for: asking the allocator takes time
        self.host = None              # the same task at the host's scale, for audit and needs
        self.baselines = {}
        self.timed_results = {}       # seed of a timed call's inputs → the reference's results
        self.model = None             # what a timed call's results look like and may be off, without their values
        self.repeats = True           # whether a seed gives the same inputs each time, as far as is known
        super().__init__(code, name, options)
        self.watch = False
        self.double = self.trace.flops <= GOLD_FLOPS and self.context.room(GOLD_MEMORY * self.peak)

    @property
    def gold(self):
        """What gold will be: random numbers of a device are others in float64, so a reference that draws has none."""
        return "float64" if self.double and not self.random else "float32"

    # ---- where and how the reference runs ----

    def place(self):
        return OnDevice(self.device)

    def draw(self, distribution, seed):
        return Draw(distribution, seed, self.device, tile_of(self.device), self.variant.torch_dtype)

    def _open(self):
        if self.options.scale == "auto":
            super()._open()
            return
        fixed = self._fixed()
        budget = Budget(math.inf, self.options.device_memory or MEMORY_SHARE * self.context.total, INPUT_SHARE)
        scaler = Scaler(self.source, budget, self.options.seed, fixed)
        values = {s.key: s.value for s in self.source.sites if s.key not in fixed}
        full = cost = scaler.measure(values)
        over = False
        if isinstance(full, Cost) and not full.fits(budget):
            plan = scaler.plan()
            values, cost, over = plan.values, plan.cost, plan.over_budget
        self._build({**fixed, **values} if over or cost is not full else dict(fixed))
        known = isinstance(cost, Cost)
        self.scaling = Scaling(scaler.changes(values), cost.work if known else self.trace.work,
                               full.work if known else self.trace.work, over)

    def _keep_examples(self, inputs, outputs):
        def shape_only(t):
            return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta")
        self.finite = {path: all(bool(torch.isfinite(x).all()) for _, (x,) in tiles(t)) for path, t in leaves(outputs)
                       if isinstance(t, torch.Tensor) and (t.is_floating_point() or t.is_complex())}
        self.input_example, self.output_example = tree_map(shape_only, inputs), tree_map(shape_only, outputs)

    def placed(self, inputs):
        return tree_map(self._here, inputs)

    def _here(self, t):
        return t.detach().to(self.device)

    def _run(self, inputs, seed, change=None, keep=True):
        gpu = gpu_vendor.of(self.device) and gpu_vendor.of(self.device).torch()
        watch = self.watch and gpu is not None
        if watch:
            before = gpu.memory_allocated(self.device)
            gpu.reset_peak_memory_stats(self.device)
        outputs, after = super()._run(inputs, seed, change, keep)
        outputs = tree_map(self._here, outputs)
        self.context.synchronize()
        if watch:
            self.peak = max(self.peak, gpu.max_memory_allocated(self.device) - before)
        return outputs, after

    # ---- trials ----

    def _made(self, key, trial):
        self.context.keep(self, key, self._bytes_of(trial))
        self.context.tidy()

    @staticmethod
    def _bytes_of(trial):
        held = nbytes(trial.inputs or []) + (trial.expected.bytes() if trial.expected else 0)
        return held + sum(e.bytes() for e in (trial.expected_after or {}).values())

    def _inputs_again(self, trial):
        """The trial with its inputs, which `_drop_inputs` may have taken; a task whose seeds do not repeat is judged anew."""
        if trial.inputs is not None or trial.made_inputs is None:
            return trial
        trial.inputs, _ = self._stage("get_inputs", self.make_inputs, trial.distribution, trial.seed)
        if _sum_of(trial.inputs) == trial.made_inputs:
            return trial
        self.repeats = False
        self.context.cached.pop((self, (trial.distribution, trial.seed)), None)
        self.forget((trial.distribution, trial.seed))
        return self.trial(trial.index, trial.seed)

    def _drop_inputs(self, trial):
        """Takes a trial's inputs away where they are large and its seed can give them again."""
        if not self.repeats or trial.inputs is None or trial.skipped or nbytes(trial.inputs) <= INPUTS_KEPT:
            return
        if trial.made_inputs is None:
            trial.made_inputs = _sum_of(trial.inputs)
        trial.inputs = None
        if (self, (trial.distribution, trial.seed)) in self.context.cached:
            self.context.keep(self, (trial.distribution, trial.seed), self._bytes_of(trial))

    def forget(self, key):
        """Drops a cached trial, or results of a timed call; what lies in the arena keeps its own."""
        if key[0] == TIMED:
            self.timed_results.pop(key[1], None)
            return
        trial = self.trials.pop(key, None)
        for index in [i for i, t in self.latest.items() if t is trial]:
            del self.latest[index]

    def _measure(self, trial, outputs, after):
        trial.gold = "float64"
        if self.double and not trial.drew:
            try:
                return self._measure_double(trial, outputs)
            except TaskError as error:
                if error.status != "infra:device_memory":
                    raise
                self.double = False
        self.context.tidy(0.0 if not self.double else EMPTY_SHARE)
        trial.gold = "float32"
        return outputs, after, self._shaken_eager(trial), None

    def _measure_double(self, trial, outputs):
        if not self.context.room(GOLD_MEMORY * self.peak):
            raise TaskError("infra:device_memory", "float64 does not fit")
        started = time.monotonic()
        gold, gold_after = self._stage("forward in float64", self.reference.gold, trial.inputs, trial.seed)
        gold = tree_map(self._here, gold)
        self.context.synchronize()
        spent = time.monotonic() - started
        self.double = spent <= GOLD_SECONDS
        elements = sum(t.numel() for _, t in leaves([trial.inputs, outputs]) if isinstance(t, torch.Tensor))
        if spent > CHEAP_SECONDS or elements > CHEAP_ELEMENTS or not self.context.room(3 * GOLD_MEMORY * self.peak):
            return gold, gold_after, [], None
        try:
            shaken = [tree_map(self._here, tree) for tree in self._shaken(trial.inputs, trial.seed)]
        except TaskError as error:
            if error.status != "infra:device_memory":
                raise
            shaken = []
        return gold, gold_after, shaken, self._naive(trial.inputs, trial.seed, outputs)

    def _shaken_eager(self, trial):
        """The eager result with every input and parameter times 1 ± eps (see tolerance), where that can be had."""
        eps = EPS[self._dtype(trial.inputs)]
        noise = torch.rand(65521, dtype=torch.float64, generator=torch.Generator().manual_seed(trial.seed))
        noise = (1 + eps * (noise * 2 - 1)).to(self.device)

        def shake(t):
            if t.dtype.is_floating_point and t.numel():
                for _, (part,) in tiles(memory(t)):
                    part.mul_(noise.repeat(-(-part.numel() // noise.numel()))[:part.numel()].to(t.dtype))

        def run():
            inputs = clone_tree(trial.inputs)
            for _, t in leaves(inputs):
                if isinstance(t, torch.Tensor):
                    shake(t)
            return self._run(inputs, trial.seed, lambda name, tensor: shake(tensor))[0]

        try:
            return [self._stage("forward", run)]
        except TaskError as error:
            if error.status not in ("invalid_task:exception", "infra:device_memory"):
                raise
            return []

    # ---- in the arena ----

    def _write(self, inputs, slots):
        tensors = [t for _, t in leaves(inputs) if isinstance(t, torch.Tensor)]
        for t, slot in zip(tensors, slots, strict=True):
            if slot.nbytes:
                self.context.arena.range(slot.offset, slot.offset + slot.nbytes).copy_(memory(t).view(torch.uint8))

    @staticmethod
    def _tree(inputs, slots):
        waiting = iter(slots)
        return encode(inputs, lambda t: next(waiting).node())

    @staticmethod
    def _plan_inputs(plan, inputs, guarded=True, label="input"):
        return [plan.add(memory(t).numel() * t.element_size(), f"{label} {_place(path)}", guarded)
                for path, t in leaves(inputs) if isinstance(t, torch.Tensor)]

    @staticmethod
    def _plan_outputs(plan, eager, guarded=True):
        tensors = [t for _, t in leaves(eager) if isinstance(t, torch.Tensor)]
        return [(plan.add(t.numel() * t.element_size(), f"output slot {i}", guarded), t.dtype) for i, t in enumerate(tensors)]

    def lay_trial(self, index, seed, move=False):
        """The `trial` reply: inputs written, guard zones and output slots poisoned, device idle."""
        self._clear()
        trial = self._inputs_again(self.trial(index, seed))
        reply = {"distribution": label(trial.distribution), "seed": seed, "skipped": trial.skipped or None, "inputs": None,
                 "outputs": None, "arena": None, "gold": trial.gold}
        if trial.skipped:
            return reply
        arena, plan = self.context.arena, Plan(self.context.shift(move))
        inputs = self._plan_inputs(plan, trial.inputs)
        slots = self._plan_outputs(plan, trial.expected.eager)
        laid = Laid(self, plan.close(), inputs, [slots])
        laid.trial, laid.index = trial, index
        arena.fit(plan.bytes)
        arena.owner = None
        arena.poison(plan, [slot for slot, _ in slots])
        self._write(trial.inputs, inputs)
        self.context.synchronize()
        arena.owner = laid
        return {**reply, "inputs": self._tree(trial.inputs, inputs), "outputs": [slot.node() for slot, _ in slots],
                "arena": arena.node()}

    def _clear(self):
        """What was laid out last is no longer asked for."""
        laid = self.context.arena.owner
        if laid is not None and laid.trial is not None:
            laid.task._drop_inputs(laid.trial)

    def _laid(self, what):
        laid = self.context.arena.owner
        if laid is None or laid.task is not self or (laid.trial is None) != (what == "timed"):
            raise TaskError("infra:bad_request", f"what was laid out last in the arena is not this task's {what}")
        return laid

    def _claims(self, tree, slots):
        """A tree of claims with the tensors that lie in `slots`; what lies in none has shape and dtype only."""
        def read(node, _):
            dtype, shape, _ = layout_of(node)
            if node.get("device") == "cpu":
                return OnCpu(node)
            if 0 in shape:
                return torch.empty(shape, dtype=dtype, device=self.device)
            at = node.get("slot")
            if type(at) is int and 0 <= at < len(slots) and slots[at][1] == dtype and \
                    math.prod(shape) * dtype.itemsize == slots[at][0].nbytes:
                return self.context.arena.view(slots[at][0], dtype).reshape(shape)
            return torch.empty(shape, dtype=dtype, device="meta")
        return decode(tree, None, read=read)

    @staticmethod
    def _form(expected, outputs):
        """`compare.form`, and outputs that are nowhere."""
        result = form(expected, outputs)
        if result is not None:
            return result
        for path, leaf in leaves(outputs):
            if isinstance(leaf, torch.Tensor) and leaf.is_meta:
                return _result("correctness_error:device", f"output{path} was not copied to its slot")
        return None

    def _inputs_now(self, inputs, slots):
        waiting = iter(slots)

        def now(t):
            slot = next(waiting)
            if not t.numel():
                return t
            return self.context.arena.view(slot, t.dtype).as_strided(t.shape, t.stride())
        return tree_map(now, inputs)

    def compare_claims(self, index, tree):
        """The `compare` reply."""
        laid = self._laid(f"trial {index}")
        if laid.index != index:
            raise TaskError("infra:bad_request", f"the arena holds trial {laid.index}, not trial {index}")
        trial, arena = laid.trial, self.context.arena
        outputs = self._claims(tree, laid.slots[0])
        wrong = self._form(trial.expected, outputs)
        if wrong is not None and wrong["status"] == "correctness_error:device":
            result = wrong
        else:
            result = self.verdict(trial, outputs, self._inputs_now(trial.inputs, laid.inputs))
        self._guards(laid, result)
        result["digest"] = digest([arena.view(slot, dtype) for slot, dtype in laid.slots[0]])
        result["gold"] = trial.gold
        return result

    def _guards(self, laid, result):
        damage = self.context.arena.damage(laid.plan)
        if damage:
            result.update({"pass": False, "status": "runtime_error:illegal_access", "message": damage})

    # ---- timed calls ----

    def _seeds(self, count, seed):
        return [(seed * 1_000_003 + k) % (1 << 62) for k in range(count)]

    def _model(self):
        """Form and budget of timed calls' results, from the task's own inputs: a DeviceExpected without values, made once."""
        if self.model is None:
            expected = self.trial(0, OWN_SEED).expected
            self.context.cached.pop((self, (self.distribution(0), OWN_SEED)), None)
            self.forget((self.distribution(0), OWN_SEED))
            self.model = expected.without_values()
        return self.model

    def lay_timed(self, calls, seed, move=False):
        """The `timed` reply: distinct inputs for as many calls as fit, one place to call `forward` at, slots for each call."""
        if not 1 <= calls <= MOST_CALLS:
            raise TaskError("infra:bad_request", f"'calls' must lie between 1 and {MOST_CALLS}, not {calls}")
        self._clear()
        model = self._model()
        seeds = self._seeds(calls, seed)
        first, _ = self._stage("get_inputs", self.make_inputs, self.distribution(0), seeds[0])
        sets, groups = self._share(calls, first, model.eager)
        arena, plan = self.context.arena, Plan(self.context.shift(move))
        inputs = self._plan_inputs(plan, first)
        plan.close()
        outputs = [self._plan_outputs(plan, model.eager, False) for _ in range(groups)]
        places = [self._plan_inputs(plan, first, False, f"set {k}, input") for k in range(sets)]
        laid = Laid(self, plan, inputs, [outputs[k % groups] for k in range(calls)])
        laid.groups = groups
        arena.fit(plan.bytes)
        arena.owner = None
        arena.poison(plan, [slot for group in outputs for slot, _ in group])
        trees, used = [], []
        for k in range(sets):
            made = first if k == 0 else self._stage("get_inputs", self.make_inputs, self.distribution(0), seeds[k])[0]
            if k and not self._alike(first, made):
                break
            self._write(made, places[k])
            trees.append(self._tree(made, places[k]))
            used.append(seeds[k])
            if k == 0:
                self._write(made, inputs)
            del made
        self.context.synchronize()
        laid.seeds, laid.model, laid.sets = used, model, len(used)
        arena.owner = laid
        self.context.tidy()
        return {"sets": trees, "seeds": [used[k % len(used)] for k in range(calls)], "place": self._tree(first, inputs),
                "outputs": [[slot.node() for slot, _ in laid.slots[k]] for k in range(calls)], "arena": arena.node()}

    def _share(self, calls, inputs, outputs):
        """(sets, groups of slots): as many as fit into the share of memory; two sets first, then slots."""
        limit = TIMED_SHARE * self.context.total - SLACK
        one_set = sum(_round(memory(t).numel() * t.element_size()) for _, t in leaves(inputs) if isinstance(t, torch.Tensor))
        one_group = sum(_round(t.numel() * t.element_size()) for _, t in leaves(outputs) if isinstance(t, torch.Tensor))
        left = limit - 2 * one_set
        groups = max(1, min(calls, int((left - one_set) // max(1, one_group))))
        return max(1, min(calls, MOST_SETS, 1 + int((left - groups * one_group) // max(1, one_set)))), groups

    @staticmethod
    def _alike(a, b):
        a, b = list(leaves(a)), list(leaves(b))
        return len(a) == len(b) and all(
            x.shape == y.shape and x.dtype == y.dtype and x.stride() == y.stride()
            if isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor) else x == y for (_, x), (_, y) in zip(a, b, strict=True))

    def compare_timed(self, claims):
        """The `compare_timed` reply. Calls whose slots a later call took over are judged by their claims only."""
        laid = self._laid("timed")
        calls = len(laid.slots)
        if not isinstance(claims, list) or len(claims) != calls:
            raise TaskError("infra:bad_request", f"'claims' must be a list of {calls} trees")
        reply = {"pass": True, "failed": None, "status": "ok", "message": "", "worst": None, "compared": [0] * calls}
        for k, claim in enumerate(claims):
            result, count = self._timed_call(laid, k, self._claims(claim, laid.slots[k]))
            reply["compared"][k] = count
            worst = result["worst"]
            if worst and (reply["worst"] is None or _ratio(worst) > _ratio(reply["worst"])):
                reply["worst"] = {**worst, "call": k}
            if not result["pass"] and reply["pass"]:
                reply.update({"pass": False, "failed": k, "status": result["status"],
                              "message": f"call {k}: {result['message']}", "worst": worst and {**worst, "call": k}})
                break
        if not self.mutates and (reply["pass"] or not reply["status"].startswith("cheating")):
            self._place_unchanged(laid, calls, reply)
        damage = self.context.arena.damage(laid.plan)
        if damage:
            reply.update({"pass": False, "status": "runtime_error:illegal_access", "message": damage})
        return reply

    def _timed_call(self, laid, k, got):
        model = laid.model
        wrong = self._form(model, got)
        survives = k >= len(laid.slots) - laid.groups
        if not survives or (wrong is not None and wrong["status"] != "correctness_error:shape"):
            return wrong or _result("ok"), 0
        seed = laid.seeds[k % laid.sets]
        outputs = self.timed_results.get(seed)
        if outputs is None:
            inputs, _ = self._stage("get_inputs", self.make_inputs, self.distribution(0), seed)
            outputs, _ = self._stage("forward", self._run, inputs, seed, None, False)
            del inputs
            size = sum(t.numel() * t.element_size() for _, t in leaves(outputs) if isinstance(t, torch.Tensor))
            if size <= TIMED_KEPT:   # the next candidate of this task is timed with the same inputs
                self.timed_results[seed] = outputs
                self.context.keep(self, (TIMED, seed), size)
        result = compare(DeviceExpected.timed(outputs, model), got)
        if not result["pass"]:
            # Single elements may be more sensitive than this task's usual budget knows: the full measure decides.
            trial = self._make_trial(0, seed)
            result = self.verdict(trial, got)
        if not result["pass"] and not self._repeatable(seed):
            result.update(UNREPEATABLE)
        return result, result["total"]

    def _repeatable(self, seed):
        """Whether a seed gives the same inputs each time: scatter and kin need not, on a GPU."""
        return self.repeats and len({_sum_of(self._stage("get_inputs", self.make_inputs, self.distribution(0), seed)[0]) for _ in range(3)}) == 1

    def _place_unchanged(self, laid, calls, reply):
        seed = laid.seeds[(calls - 1) % laid.sets]
        inputs, _ = self._stage("get_inputs", self.make_inputs, self.distribution(0), seed)
        now = self._inputs_now(inputs, laid.inputs)
        for (path, a), (_, b) in zip(leaves(inputs), leaves(now), strict=True):
            if isinstance(a, torch.Tensor) and not same(a, b):
                if self._repeatable(seed):
                    reply.update({"pass": False, "failed": calls - 1, "status": "cheating:input_mutation", "message":
                                  f"input {_place(path)} is not as the last timed call got it; the reference leaves it alone"})
                elif reply["pass"]:
                    reply.update({"pass": False, "failed": calls - 1, **UNREPEATABLE})
                return

    # ---- the host's part ----

    def on_host(self):
        """The same task as the host runs it, scaled for that; made when first asked for."""
        if self.host is None:
            self.host = Task(self.source.code, self.name, Options(seed=self.options.seed))
        return self.host

    def needs(self, names):
        return self.on_host().needs(names)

    def close(self):
        """Frees what the task holds on the device. It must be opened anew afterwards."""
        self.context.forget(self)
        if self.context.arena.owner is not None and self.context.arena.owner.task is self:
            self.context.arena.owner = None
        self.trials.clear()
        self.latest.clear()
        if self.baselines:
            from .baseline import forget
            forget(self)
        self.reference = self.host = None

    def bytes(self):
        state = nbytes([t for _, _, t in self.reference.state()]) if self.reference is not None else 0
        return 3 * state


def _sum_of(tree):
    return checksum([t for _, t in leaves(tree) if isinstance(t, torch.Tensor)])


def _place(path):
    """"[0]['a']" → "0['a']": how an input is called in messages."""
    head, bracket, rest = path[1:].partition("]")
    return head + rest if bracket else path


def _round(size):
    return -(-size // ALIGN) * ALIGN + ALIGN


def _ratio(worst):
    return float(worst["ratio"]) if worst else -1.0
