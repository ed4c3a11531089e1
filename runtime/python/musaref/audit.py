"""Before a task is used: candidates that do no work must fail on it, and the reference must agree with itself.

    audit(task)   # {"status": "ok", "found": [{"candidate": "zeros", "passed": false, "ratio": …}, …]}

A trivial candidate that passes every trial (of those that are not skipped) makes the task `invalid_task:trivial`: a real
candidate's pass would mean nothing. Trials are made only as long as some trivial candidate is still passing, so that a sound
task costs one trial.
"""


import torch

from .compare import Expected, compare
from .distributions import ORDER
from .errors import TaskError
from .reference import double_tree
from .tolerance import Leaf
from .tree import leaves, tree_map

AUDIT_SEED = 20_011
POISON = 0xA5
TOO_NOISY = 0.05   # honest error as a share of the result's rms


def _fill(value):
    def make(task, trial):
        return tree_map(lambda t: torch.full_like(t, value), trial.expected.eager)
    return make


def _first_tensor(trial):
    return next((t for _, t in leaves(trial.inputs) if isinstance(t, torch.Tensor)), None)


def _mean_of_input(task, trial):
    first = _first_tensor(trial)
    if first is None or first.numel() == 0 or first.is_complex():
        return None
    if all(t.numel() == 1 for _, t in leaves(trial.expected.eager) if isinstance(t, torch.Tensor)):
        return None  # the mean of everything may be the very task
    mean = float(first.double().mean())
    return tree_map(lambda t: torch.full_like(t, mean if t.is_floating_point() else int(mean)), trial.expected.eager)


def _first_input(task, trial):
    first = _first_tensor(trial)
    outs = [t for _, t in leaves(trial.expected.eager) if isinstance(t, torch.Tensor)]
    if first is None or any(t.shape != first.shape or t.dtype != first.dtype for t in outs):
        return None
    return tree_map(lambda t: first.clone(), trial.expected.eager)


def _poison(task, trial):
    def make(t):
        filled = torch.empty(t.shape, dtype=t.dtype)
        if t.dtype == torch.bool:
            return filled.fill_(True)
        if filled.numel():
            filled.reshape(-1).view(torch.uint8).fill_(POISON)
        return filled
    return tree_map(make, trial.expected.eager)


def _constant(task, trial):
    """The mean of the reference's result on the first trial, whatever the inputs are."""
    first = task.trial(0, AUDIT_SEED)
    means = iter([float(t.double().nan_to_num(0, 0, 0).mean()) if t.numel() and not t.is_complex() else 0.0
                  for _, t in leaves(first.expected.eager) if isinstance(t, torch.Tensor)])

    def make(t):
        mean = next(means)
        return torch.full_like(t, mean if t.is_floating_point() or t.is_complex() else bool(mean > 0.5) if t.dtype == torch.bool
                               else int(mean))
    return tree_map(make, trial.expected.eager)


CANDIDATES = {"zeros": _fill(0), "ones": _fill(1), "mean": _mean_of_input, "first_input": _first_input,
              "uninitialised": _poison, "constant": _constant}


def _deterministic(task, trial):
    """A second run from the same state and seed must give the same, up to the order of a parallel sum."""
    first = trial.expected.eager
    outputs, _ = task._run(trial.inputs, trial.seed)
    return compare(Expected(first, double_tree(first), (), task.trace.terms), outputs)


def audit(task):
    """The `audit` reply without "ok". Raises TaskError when the reference itself fails."""
    found = {name: {"candidate": name, "passed": True, "ratio": 0.0} for name in CANDIDATES}
    first = task.trial(0, AUDIT_SEED)
    again = _deterministic(task, first)
    if not again["pass"]:
        return {"status": "invalid_task:nondeterministic", "found": [], "message":
                f"two runs of the reference on the same inputs differ: {again['message']}"}
    noisy = next((leaf for _, _, leaf in first.expected.leaves if isinstance(leaf, Leaf) and leaf.ill_conditioned(0.0)
                  and leaf.rms > 0), None)
    if noisy is not None and noisy.honest > TOO_NOISY * noisy.rms:
        return {"status": "invalid_task:ill_conditioned", "found": [], "message":
                f"rounding alone changes the result by {noisy.honest:.3g} of values of {noisy.rms:.3g}: nothing can be verified"}
    bad = _not_finite(first)
    passing, tried, skipped = dict(CANDIDATES), 0, []
    for index in range(2 * len(ORDER)):
        if not passing:
            break
        try:
            trial = task.trial(index, AUDIT_SEED + index)
        except TaskError:
            if index == 0:
                raise
            continue
        if trial.skipped:
            if trial.distribution not in skipped:
                skipped.append(trial.distribution)
            continue
        tried += 1
        for name, make in list(passing.items()):
            outputs = make(task, trial)
            result = compare(trial.expected, outputs) if outputs is not None else {"pass": False, "worst": None}
            if not result["pass"]:
                del passing[name]
                found[name]["passed"] = False
            ratio = (result["worst"] or {}).get("ratio", 0.0) if outputs is not None else None
            if ratio is not None:
                old = found[name]["ratio"]
                found[name]["ratio"] = ratio if isinstance(ratio, str) or isinstance(old, str) else max(old, ratio)
            else:
                found[name]["ratio"] = None
    report = {"found": list(found.values()), "trials": tried, "skipped": skipped}
    if passing:
        return {"status": "invalid_task:trivial", **report,
                "message": f"every trial is passed by a candidate that does no work: {', '.join(passing)}"}
    if bad:
        return {"status": "invalid_task:nonfinite", **report, "message": bad}
    return {"status": "ok", **report, "message": ""}


def _not_finite(trial):
    """A reference that is NaN everywhere tests nothing."""
    for _, eager, _ in trial.expected.leaves:
        if isinstance(eager, torch.Tensor) and eager.is_floating_point() and eager.numel() and \
                bool(torch.isnan(eager).all()):
            return "an output of the reference is NaN everywhere on the task's own inputs"
    return ""



