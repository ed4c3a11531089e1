"""Unit tests for a task: sizes and values beside its own, written into its file as MUSACODER_CASES (docs/data.md).

    propose(code, seed)    # {"code": …, "kept": ["unaligned batch", …], "dropped": [{"name", "reason"}]}

Each is run in PyTorch twice: one that raises, gives other values the second time, or values that are not finite is dropped. The judge calls a
verified candidate of such a task again with the sizes of each case (src/judge/judge.cpp, look_at_cases).
"""

import random

import torch
from musaref.session import Options, Task
from musaref.source import TaskSource

MOST = 6
UNALIGNED = (7, 13, 33, 67, 129)


def _run(code, sizes):
    """The reason why a case is no use, or ""."""
    try:
        task = Task(code, "case", Options(set=tuple(sorted(sizes.items()))))
        first, again = (task._run(task.make_inputs("own", 42)[0], 42)[0] for _ in range(2))
    except Exception as error:  # whatever the task raises at these sizes
        return f"raises {type(error).__name__}"
    for a, b in zip(*([o for o in (out if isinstance(out, (list, tuple)) else [out]) if isinstance(o, torch.Tensor)] for out in (first, again)), strict=False):
        if not torch.equal(a, b) and not (a.is_floating_point() and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))):
            return "is not deterministic"
        if a.is_floating_point() and not torch.isfinite(a).all():
            return "gives values that are not finite"
        if a.numel() == 0:
            return "gives nothing"
    return ""


def propose(code, seed=0):
    draw = random.Random(seed)
    source = TaskSource(code)
    named = list(dict.fromkeys(s.name for s in source.sites if s.context == "module" and s.name.isidentifier() and s.value > 1))
    sizes = {n: next(s.value for s in source.sites if s.name == n) for n in named}
    wanted = []
    for name in named:
        wanted.append((f"unaligned {name}", {name: draw.choice([u for u in UNALIGNED if u != sizes[name]])}))
    for name in named:
        wanted.append((f"single {name}", {name: 1}))
    if len(named) > 1:
        long, short = draw.sample(named, 2)
        wanted.append((f"imbalanced {long}", {long: 1025, short: 2}))
        wanted.append((f"imbalanced {short}", {short: 1025, long: 2}))
    kept, dropped = [], []
    for name, case in wanted:
        if len(kept) == MOST:
            break
        reason = _run(code, case)
        if reason:
            dropped.append({"name": name, "reason": reason})
        else:
            kept.append((name, case))
    text = ""
    if kept:
        lines = "".join(f"    {{\"name\": {name!r}, \"set\": {case!r}}},\n".replace("'", '"') for name, case in kept)
        text = f"\n\n# Sizes that an answer is tried at beside the task's own.\nMUSACODER_CASES = [\n{lines}]\n"
    return {"code": code.rstrip("\n") + "\n" + text if text else code, "kept": [name for name, _ in kept], "dropped": dropped}
