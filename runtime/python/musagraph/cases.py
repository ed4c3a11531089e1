"""Unit tests for a task: sizes, values, layouts and dtypes beside its own, written into its file as MUSACODER_CASES (docs/data.md).

    propose(code, seed)    # {"code": …, "kept": ["all zeros", …], "dropped": [{"name", "reason"}]}

Each is run in PyTorch twice: one that raises, gives other values the second time, or values that are not finite is dropped, and so is one
from which the judge would learn nothing (the dtype overflows, rounding alone changes the result). The judge calls a verified candidate of
such a task again with each case (src/judge/judge.cpp, look_at_cases).
"""

import json
import random

import torch
from musaref.cases import DTYPES, LAYOUTS, MOST, Variant
from musaref.session import OWN_SEED, Options, Task
from musaref.source import TaskSource
from musaref.tree import leaves

UNALIGNED = (7, 13, 33, 67, 129)
LONG, SHORT = 1025, 2
VALUES = (("all ones", "ones"), ("negative", "negative"), ("large", "large"), ("tiny", "tiny"), ("far from zero", [100.0, 101.0]))
HEADER = "# What an answer is tried at beside the task's own inputs. Another dtype or layout, or no elements at all, is tried and does not count."


def _reason(code, case):
    """Why a case is no use, or ""."""
    sizes = case.get("set", {})
    try:
        variant = Variant.parse({k: case[k] for k in ("values", "layout", "dtype") if k in case})
        task = Task(code, "case", Options(set=tuple(sorted(sizes.items())), inputs=variant))
        runs = [task._run(task.make_inputs(task.distribution(0), OWN_SEED)[0], OWN_SEED)[0] for _ in range(2)]
        skipped = task.trial(0, OWN_SEED).skipped
    except Exception as error:  # whatever the task raises
        return f"raises {type(error).__name__}"
    first, again = ([t for _, t in leaves(run) if isinstance(t, torch.Tensor)] for run in runs)
    for a, b in zip(first, again, strict=True):
        if not torch.equal(a, b) and not (a.is_floating_point() and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))):
            return "is not deterministic"
        if a.is_floating_point() and not torch.isfinite(a).all():
            return "gives values that are not finite"
    if all(t.numel() == 0 for t in first) and 0 not in sizes.values():
        return "gives nothing"
    return skipped


def _wanted(source, draw):
    """Cases by kind: a list of lists, those of a kind in the order in which they are worth trying."""
    sizes = {}
    for site in source.sites:
        if site.context == "module" and site.name.isidentifier() and site.value > 1:
            sizes.setdefault(site.name, site.value)
    imbalanced = []
    if len(sizes) > 1:
        long, short = draw.sample(list(sizes), 2)
        imbalanced = [{"name": f"imbalanced {a}", "set": {a: LONG, b: SHORT}} for a, b in ((long, short), (short, long))]
    unaligned = [{"name": f"unaligned {n}", "set": {n: draw.choice([u for u in UNALIGNED if u != sizes[n]])}} for n in sizes]
    # A row of zeros is what no random draw gives, so it comes first.
    values = [("all zeros", "zeros"), *draw.sample(VALUES, len(VALUES))]
    return [[{"name": name, "values": value} for name, value in values],
            unaligned,
            [{"name": f"single {n}", "set": {n: 1}} for n in sizes],
            imbalanced,
            [{"name": layout, "layout": layout} for layout in draw.sample(LAYOUTS, len(LAYOUTS))],
            [{"name": dtype, "dtype": dtype} for dtype in draw.sample(tuple(DTYPES), len(DTYPES))],
            [{"name": f"empty {n}", "set": {n: 0}} for n in sizes]]


def propose(code, seed=0):
    """A file that has cases already keeps them as they are."""
    source = TaskSource(code)
    kinds = [] if source.assigned("MUSACODER_CASES") else _wanted(source, random.Random(seed))
    kept, dropped = [], []
    while any(kinds) and len(kept) < MOST:      # in each round the first of every kind that can be kept
        for kind in kinds:
            while kind and len(kept) < MOST:
                case = kind.pop(0)
                reason = _reason(code, case)
                if not reason:
                    kept.append(case)
                    break
                dropped.append({"name": case["name"], "reason": reason})
    names = [case["name"] for case in kept]
    if not kept:
        return {"code": code, "kept": names, "dropped": dropped}
    lines = "".join(f"    {json.dumps(case)},\n" for case in kept)
    return {"code": f"{code.rstrip()}\n\n\n{HEADER}\nMUSACODER_CASES = [\n{lines}]\n", "kept": names, "dropped": dropped}
