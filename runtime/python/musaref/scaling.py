"""Shrinks the constants of a task file until its work fits a budget, and keeps its structure.

    plan = Scaler(source, Budget(work=3e7)).plan()
    plan.values          # {site key: int}, for source.execute
    plan.changes         # [{"name": "batch_size", "line": 12, "from": 4096, "to": 16, "how": "auto"}]

How:
* Each site gets a role from its name, its place in a shape and the parameter of `__init__` that it becomes: batch, spatial
  (heights, lengths, sequence), feature (channels, matrix sides), groups, or fixed (kernel sizes, strides, heads, dims, …).
* Roles shrink in stages (`STAGES`): batch first, then spatial, then features, each down to a floor, until the budget
  holds; the last stage is bisected, so that no more is taken away than needed. All sites of a role shrink by one factor, so
  equal sizes stay equal and long stays long beside short.
* `snap` keeps what makes a size special: a multiple of 32 stays one, a ragged 8205 stays odd, and factors that the task
  divides by (heads, groups, patches, blocks) keep dividing.
* Every step is tried: the task is built and run on meta tensors, which have shapes and no values, so that 6 GB inputs cost
  nothing. A step that the reference refuses is not taken (or taken for single sites). What meta tensors cannot run is
  tried for real at small sizes.
"""

import math
import re
from dataclasses import dataclass, field

import torch

from .errors import TaskError, classify
from .reference import call_get_init_inputs, call_get_inputs, construct
from .source import quiet
from .trace import MetaHelp, OnHost, Trace
from .tree import nbytes

WORK_BUDGET = 4e7                 # FLOPs + bytes moved by the reference's operators
MEMORY_BUDGET = 3 << 20           # bytes of inputs, outputs, parameters and buffers together
INPUT_SHARE = 1 / 3               # of which inputs may take this part
NEVER_BELOW = 8                   # values up to this are never touched
REAL_RUN_BYTES = 64 << 20         # inputs of a trial run with real values, where meta tensors do not do
SEARCH_OPERATORS = 2500  # traced over all steps tried; after this the best plan so far is taken (about 1 s)

# (role, floor): one after the other, each from where the last one ended.
STAGES = (("batch", 16), ("spatial", 64), ("feature", 128), ("batch", 4), ("spatial", 32), ("feature", 64),
          ("batch", 2), ("spatial", 16), ("feature", 32), ("heads", 8), ("spatial", 8), ("feature", 16), ("heads", 2))
LAST_STAGE = ("batch", 1)         # only where the work is still FAR_OVER times the budget
FAR_OVER = 25
TOGETHER = (8, 4, 2)              # factors by which all spatial and feature sizes are tried at once, where single ones are refused
FEWEST_NORMALISED = 16            # a normalisation over fewer values than this is noise; no step may lead there

_FIXED = re.compile(
    r"kernel|stride|pad|dilat|eps|moment|reduce|axis|layers?$|num_layers|ratio|factor|scal|expan|drop|alpha|"
    r"beta|gamma|margin|seed|patch|window|block|chunk|depths|stages|divisor|constant|weight_decay|scale|min|max_val|clamp|"
    r"return|bias$|negative|slope|threshold|value|state$|^k$_|top_?k|iters?|num_iter|diag|growth|ghost|reduction|order", re.I)
_BATCH = re.compile(r"batch|^bs$|^b$|^n_batch|^bsz", re.I)
_SPATIAL = re.compile(
    r"height|width|length|depth|^[hwdt]$|^dim[123]$|seq|image|size_[hw]|_len$|len$|^time|frames|resolution|spatial|^img|"
    r"height_|width_|points|tokens", re.I)
_GROUPS = re.compile(r"group", re.I)
_HEADS = re.compile(r"heads?$|^n_?heads?", re.I)
_DIVIDES = {"feature": re.compile(r"head|group|chunk|factor|ratio|upscale", re.I),
            "spatial": re.compile(r"patch|window|block|chunk|factor", re.I)}


@dataclass
class Budget:
    work: float = WORK_BUDGET
    memory: float = MEMORY_BUDGET
    input_share: float = INPUT_SHARE


@dataclass
class Cost:
    work: float
    inputs: int
    memory: int
    trace: Trace
    inputs_value: object = None
    outputs: object = None

    def fits(self, budget):
        return self.work <= budget.work and self.memory <= budget.memory and self.inputs <= budget.memory * budget.input_share


@dataclass
class Plan:
    values: dict
    changes: list
    cost: Cost
    full: Cost = None
    over_budget: bool = False
    fallbacks: list = field(default_factory=list)  # larger settings that ran on meta tensors, nearest first
    note: str = ""


def role_of(site):
    """batch, spatial, feature, groups or fixed."""
    base = site.name.split("[")[0]
    if site.value <= (2 if _BATCH.search(base) else NEVER_BELOW):
        return "fixed"
    names = [base, *site.aliases]
    if _GROUPS.search(base) or any(_GROUPS.search(a) for a in site.aliases):
        return "groups"
    if _HEADS.search(base):
        return "heads"
    if _BATCH.search(base):
        return "batch"
    if site.context != "module" and site.position >= 0 and base.startswith("get_"):
        return "batch" if site.position == 0 and site.rank > 1 else "spatial" if site.position >= 2 else "feature"
    strict = [n for n in names if not re.search(r"shape", n)]
    if any(_FIXED.search(n) for n in strict) and not any(_SPATIAL.search(n) for n in names):
        return "fixed"
    if any(_SPATIAL.search(n) for n in names):
        return "spatial"
    if "shape" in base and site.rank >= 3 and site.position >= 1:
        return "spatial"
    return "feature"


def snap(original, target, divider=1):
    """The largest value ≤ max(target, divider) that keeps what makes `original` special; never above `original`.

    Multiples of a power of two (up to 128) stay such multiples as far as the target allows; other numbers keep their
    remainder by 32 (or by less, for small targets). `divider` divides the result where it divides the original.
    """
    target = max(1, int(target))
    if target >= original:
        return original
    if original % divider:
        divider = 1
    power = original & -original
    step = min(power, 128, 1 << max(0, int(math.log2(target))))
    if power >= 8 or power == original:
        step = math.lcm(step, divider)
        return min(original, max(step, target // step * step))
    modulus = min(32, 1 << max(0, int(math.log2(max(1, target / 4)))))
    if divider > 1:
        return min(original, max(divider, target // divider * divider))
    value = target - (target - original) % modulus
    return min(original, value if value > 0 else target)


class Scaler:
    def __init__(self, source, budget=None, seed=42, fixed=None):
        self.source = source
        self.budget = budget or Budget()
        self.seed = seed
        self.fixed = dict(fixed or {})      # site key → value given by hand
        self.roles = {s.key: role_of(s) for s in source.sites if s.key not in self.fixed}
        self.by_key = {s.key: s for s in source.sites}
        self.cache = {}
        self.models = {}
        self.real = False
        self.full_normalised = []           # values behind each batch statistic of the full task
        self.refused = set()                # roles of which the reference refused some step
        self.operators = 0                  # traced so far: a measure of time that does not depend on the machine
        self.dividers = {role: self._divider(pattern) for role, pattern in _DIVIDES.items()}

    def _divider(self, pattern):
        """What sizes must stay multiples of: the small constants that the task divides them by."""
        found = 1
        for site in self.source.sites:
            names = [site.name.split("[")[0], *site.aliases]
            if 1 < site.value <= 64 and any(pattern.search(n) for n in names):
                merged = math.lcm(found, site.value)
                if merged <= 512:
                    found = merged
        return found

    def _divider_for(self, site):
        """The part of its role's common divider that divides this site."""
        return math.gcd(self.dividers.get(self.roles.get(site.key), 1), site.value)

    def _tie_equal(self):
        """Sites of equal value and different roles become features, so that they stay equal. False when there are none."""
        tied = False
        for value in {s.value for s in self.source.sites}:
            keys = [k for k, r in self.roles.items() if self.by_key[k].value == value and r not in ("fixed", "groups")]
            if len({self.roles[k] for k in keys}) > 1:
                tied = True
                for key in keys:
                    self.roles[key] = "feature"
        return tied

    # ---- one trial run ----

    def measure(self, values):
        """Cost of the task at these values, or a TaskError."""
        key = tuple(sorted({**self.fixed, **values}.items()))
        if key not in self.cache:
            trace = Trace()
            try:
                self.cache[key] = self._run({**self.fixed, **values}, trace)
            except BaseException as error:  # noqa: BLE001  task code may raise anything
                if isinstance(error, KeyboardInterrupt):
                    raise
                self.cache[key] = classify(error, "running the task")
                if self.cache[key].status == "invalid_task:timeout":
                    raise self.cache[key] from None
            finally:
                self.operators += 20 + sum(trace.ops.values())
        return self.cache[key]

    def exhausted(self):
        return self.operators > SEARCH_OPERATORS

    def _run(self, values, trace):
        device = "cpu" if self.real else "meta"
        help_mode = OnHost() if self.real else MetaHelp(trace)
        if self.real:
            size = nbytes(self._inputs_on_meta(values))
            if size > REAL_RUN_BYTES:
                return Cost(math.inf, size, size, trace)
        with torch.no_grad(), quiet(), torch.device(device), help_mode:
            torch.manual_seed(self.seed)
            task = self.source.execute(values)
            args, kwargs = call_get_init_inputs(task)
            model = self._model(task, args, kwargs)
            torch.manual_seed(self.seed)
            inputs = call_get_inputs(task)
            with trace:
                outputs = model(*inputs)
        for now, full in zip(trace.normalised, self.full_normalised, strict=False):
            if now < min(FEWEST_NORMALISED, full):
                raise TaskError("invalid_task:exception", f"a normalisation over {now} values")
        state = nbytes(list(model.parameters()) + list(model.buffers()))
        total = nbytes(inputs) + nbytes(_only_tensors(outputs)) + state
        return Cost(trace.work, nbytes(inputs), total, trace, inputs, outputs)

    def _model(self, task, args, kwargs):
        """Built once for equal constructor arguments, unless the class reads constants by itself."""
        if self.source.class_reads_globals or self.real:
            return construct(task, args, kwargs, self.seed)
        key = repr((args, kwargs))
        if key not in self.models:
            self.models = {key: construct(task, args, kwargs, self.seed)}
        return self.models[key]

    def _inputs_on_meta(self, values):
        with torch.no_grad(), quiet(), torch.device("meta"), MetaHelp(Trace()):
            return call_get_inputs(self.source.execute(values))

    def fits(self, cost):
        return isinstance(cost, Cost) and cost.fits(self.budget)

    # ---- the search ----

    def shrink(self, values, role, factor, floor, only=None):
        """`values` with every site of the role at original / factor, not below the floor, never above what it is."""
        out = dict(values)
        for key, site_role in self.roles.items():
            if site_role != role or (only is not None and key not in only):
                continue
            site = self.by_key[key]
            target = max(site.value / factor, min(floor, site.value))
            out[key] = min(values.get(key, site.value), snap(site.value, target, self._divider_for(site)))
        if role == "feature":
            self._tie_groups(out, factor)
        return out

    def _tie_groups(self, values, factor):
        """Large group counts shrink with the features, so that the group size stays about what it was."""
        features = [(self.by_key[k].value, v) for k, v in values.items() if self.roles.get(k) == "feature"]
        for key, role in self.roles.items():
            if role != "groups" or self.by_key[key].value <= 16:
                continue
            count = self.by_key[key].value
            shrunk = [count * v // n for n, v in features if n % count == 0 and v < n]
            if shrunk:
                values[key] = max(2, min(shrunk))

    def plan(self):
        plan = self._plan()
        if plan.over_budget and self.refused and not self.exhausted() and self._tie_equal():
            tied = self._plan()
            if tied.cost.work < plan.cost.work:
                plan = tied
        if plan.over_budget and self.refused and not self.exhausted():
            for factor in TOGETHER:
                start = self._together(factor)
                if isinstance(self.measure(start), Cost):
                    together = self._plan(start)
                    if together.cost.work < plan.cost.work:
                        plan = together
                    break
        if plan.cost.work > FAR_OVER * self.budget.work and "batch" not in self.refused:
            last = self._plan(plan.values, (LAST_STAGE,))
            if last.cost.work < plan.cost.work:
                plan = last
        return plan

    def _together(self, factor):
        """All spatial and feature sizes that the factor divides, divided by it."""
        return {s.key: s.value // factor if self.roles.get(s.key) in ("spatial", "feature") and s.value % factor == 0 and
                s.value // factor >= NEVER_BELOW else s.value for s in self.source.sites if s.key not in self.fixed}

    def _plan(self, begin=None, stages=STAGES):
        start = {s.key: s.value for s in self.source.sites if s.key not in self.fixed}
        full = self.measure(start)
        if isinstance(full, TaskError):
            if full.status not in ("invalid_task:exception", "invalid_task:memory"):
                raise full
            self.real = True
            self.cache.clear()
            self.models.clear()
            full = self.measure(start)
        if isinstance(full, Cost):
            self.full_normalised = full.trace.normalised
        values, steps = begin or start, [start]
        best = full if begin is None else self.measure(begin)
        if not self.fits(best):
            for role, floor in stages:
                if self.exhausted():
                    break
                values, cost = self._stage(values, role, floor)
                if values != steps[-1]:
                    steps.append(values)
                if isinstance(cost, Cost):
                    best = cost
                if self.fits(cost):
                    break
        if not isinstance(best, Cost) or math.isinf(best.work):
            known = self.cache.get(tuple(sorted({**self.fixed, **values}.items())))
            if isinstance(known, TaskError):
                raise known
            if not isinstance(best, Cost):
                raise best
        final = self.measure(values)
        if isinstance(final, TaskError):
            raise final
        changes = self.changes(values)
        over = not final.fits(self.budget)
        return Plan({**self.fixed, **values}, changes, final, full if isinstance(full, Cost) else None, over,
                    [{**self.fixed, **s} for s in reversed(steps[:-1])])

    def changes(self, values):
        out = []
        for site in self.source.sites:
            how = "set" if site.key in self.fixed else "auto"
            now = self.fixed.get(site.key, values.get(site.key, site.value))
            if now != site.value or how == "set":
                out.append({"name": site.name, "line": site.line, "from": site.value, "to": now, "how": how})
        return out

    def _stage(self, values, role, floor):
        """Shrinks one role to its floor, or as far as the budget asks. Returns (values, cost)."""
        sites = [self.by_key[k] for k, r in self.roles.items() if r == role and values[k] > floor]
        before = self.measure(values)
        if not sites:
            return values, before
        top = max(s.value for s in sites) / floor
        lowest = self.shrink(values, role, top, floor)
        cost = self.measure(lowest)
        if isinstance(cost, TaskError):
            self.refused.add(role)
            return self._without_refused(values, role, floor, top, before)
        if not self.fits(cost):
            return (lowest, cost) if self._helps(before, cost) else (values, before)
        return self._bisect(values, role, floor, top, None, lowest, cost)

    @staticmethod
    def _helps(before, after):
        if not isinstance(before, Cost):
            return True
        return after.work < before.work or after.memory < before.memory

    def _bisect(self, values, role, floor, top, only, low_values, low_cost):
        """The smallest factor in (1, top] whose cost fits; `top` is known to fit."""
        low, high = 0.0, math.log2(top)
        best, best_cost = low_values, low_cost
        seen = {tuple(sorted(best.items()))}
        for _ in range(7):
            if high - low < 0.2 or self.exhausted():
                break
            middle = (low + high) / 2
            trial = self.shrink(values, role, 2**middle, floor, only)
            mark = tuple(sorted(trial.items()))
            cost = best_cost if mark in seen and trial == best else self.measure(trial)
            seen.add(mark)
            if self.fits(cost):
                high, best, best_cost = middle, trial, cost
            else:
                low = middle
        return best, best_cost

    def _without_refused(self, values, role, floor, top, before):
        """The floor is refused by the reference: less far for all, then each site by itself."""
        factor = top / 2
        while factor >= 1.5:
            trial = self.shrink(values, role, factor, floor)
            if trial == values:
                break
            cost = self.measure(trial)
            if isinstance(cost, Cost):
                if self.fits(cost):
                    return self._bisect(values, role, floor, factor, None, trial, cost)
                return trial, cost
            factor /= 2
            if self.exhausted():
                break
        best, best_cost = values, before
        keys = [k for k, r in self.roles.items() if r == role]
        groups = {}
        for key in keys:
            groups.setdefault(self.by_key[key].value, []).append(key)
        if len(groups) > 1 or len(keys) > 1:
            for only in (list(groups.values()) if len(groups) > 1 else [[k] for k in keys]):
                trial = self.shrink(best, role, top, floor, set(only))
                if trial == best:
                    continue
                cost = self.measure(trial)
                if isinstance(cost, Cost) and self._helps(best_cost, cost):
                    best, best_cost = trial, cost
                    if self.fits(cost):
                        break
        return best, best_cost


def _only_tensors(value):
    """Outputs may hold anything; what counts here are its tensors."""
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, dict):
        return [_only_tensors(v) for v in value.values()]
    if isinstance(value, (list, tuple)):
        return [_only_tensors(v) for v in value]
    return None
