#!/usr/bin/env python3
"""Seconds of the reference runner's device mode for given task files, through the real process and its socket.

    python3 bench/task/device_reference.py --device cuda FILE... [--calls 10] [--trials 7] [--compile] [--jsonl ROWS] [--ids 1/1,1/19]

The candidate is the task's own Model, run eagerly in this process on the arena that it maps (through CUDA IPC on a GPU), so
that every verdict should be a pass. Columns, in milliseconds unless they say otherwise: `open` (s), `trial0` and `cmp0` of the
first trial (gold is made), `trial` and `cmp` of the same one again (gold is cached), `timed` and `cmp_t` of --calls timed calls,
`eager` and `tf32` (median of the baseline), `compiled` with --compile; then trials passed/skipped, gold, what went wrong.
FILE may be a .py task; --jsonl takes KernelBench's rows (level, id, code). --device host runs it without a GPU.
"""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile
import time
import types

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

import torch  # noqa: E402
from reference_client import DeviceJudge  # noqa: E402

COLUMNS = ("open", "trial0", "cmp0", "trial", "cmp", "timed", "cmp_t", "eager", "tf32", "compiled")


def tasks(options):
    for path in options.files:
        yield pathlib.Path(path).stem, pathlib.Path(path).read_text()
    if options.jsonl:
        wanted = set(options.ids.split(",")) if options.ids else None
        with open(options.jsonl) as file:
            for row in map(json.loads, file):
                name = f"{row['level']}/{row['id']}"
                if wanted is None or name in wanted:
                    yield name, row["code"]


def candidate_of(code, opened, device):
    """The task's Model, built as the judge's candidates are: on the host under the seed, then moved."""
    for line in opened["scaling"]:
        print(f"  scaled: {line['name']} {line['from']} -> {line['to']}; the candidate would have other sizes")
    module = types.ModuleType("bench_task")
    exec(compile(code, "<task>", "exec"), module.__dict__)
    made = module.get_init_inputs() if hasattr(module, "get_init_inputs") else []
    torch.manual_seed(opened["seed"])
    model = (module.Model(**made) if isinstance(made, dict) else module.Model(*made)).to(device)
    saved = {k: v.clone() for k, v in model.state_dict().items()}

    def forward(*inputs):
        model.load_state_dict(saved)
        return model(*inputs)
    return forward


class Clock:
    def __init__(self, row):
        self.row = row

    def __call__(self, column, scale, function, *args, **kwargs):
        started = time.perf_counter()
        result = function(*args, **kwargs)
        self.row[column] = round((time.perf_counter() - started) * scale, 2)
        return result


def judge_trial(judge, clock, handle, index, columns, forward):
    """(the reply to compare or None, digest) with the runner's part timed alone."""
    trial = clock(columns[0], 1e3, judge.good, op="trial", handle=handle, index=index, seed=100 + index)
    if trial["skipped"]:
        return None
    arena = judge.arena(trial["arena"])
    with torch.no_grad():
        tree = judge.claims(forward(*judge.value(trial["inputs"], arena)), trial["outputs"], arena)
    return clock(columns[1], 1e3, judge.good, op="compare", handle=handle, index=index, outputs=tree)


def measure(judge, code, options):
    row = {}
    clock = Clock(row)
    opened = clock("open", 1.0, judge.ask, op="open", task="t", code=code, device=options.device, timeout_s=300)
    if not opened["ok"]:
        return {**row, "problem": f"{opened['status']}: {opened['message'][:200]}"}
    handle, problems = opened["handle"], []
    row["gold"] = opened["gold"]
    try:
        forward = candidate_of(code, opened, judge.device)
        passed = skipped = 0
        for index in range(options.trials):
            result = judge_trial(judge, clock, handle, index, ("trial0", "cmp0") if index == 0 else ("", ""), forward)
            if result is None:
                skipped += 1
                continue
            passed += result["pass"]
            if not result["pass"]:
                problems.append(f"trial {index}: {result['status']} {result['message'][:120]}")
        row["passed"] = f"{passed}/{options.trials - skipped}"
        for _ in range(2):      # the second time nothing is new to anybody
            judge_trial(judge, clock, handle, 0, ("trial", "cmp"), forward)
        for seed in (1, 2):
            timed = clock("timed", 1e3, judge.good, op="timed", handle=handle, calls=options.calls, seed=seed)
            arena = judge.arena(timed["arena"])
            place, claims = judge.value(timed["place"], arena), []
            for k in range(options.calls):
                judge._copy(timed["sets"][k % len(timed["sets"])], timed["place"], arena)
                with torch.no_grad():
                    claims.append(judge.claims(forward(*place), timed["outputs"][k], arena))
            result = clock("cmp_t", 1e3, judge.good, op="compare_timed", handle=handle, claims=claims)
        if not result["pass"]:
            problems.append(f"timed: {result['status']} {result['message'][:120]}")
        row["sets"] = len(timed["sets"])
        for column, mode, precision in (("eager", "eager", "strict"), ("tf32", "eager", "tf32"), ("compiled", "compile", "strict")):
            if mode == "compile" and not options.compile:
                continue
            reply = judge.good(op="baseline", handle=handle, mode=mode, precision=precision, calls=20, flush_bytes=options.flush_bytes,
                               warm_s=1.0, seed=3, timeout_s=300)
            if "ms" in reply:
                row[column] = round(statistics.median(reply["ms"]), 4)
            else:
                problems.append(f"{column}: {reply['unavailable'][:200]}")
    except (AssertionError, RuntimeError) as error:
        problems.append(f"{type(error).__name__}: {str(error)[:300]}")
    finally:
        judge.ask(op="close", handle=handle)
    row.pop("", None)
    return {**row, "problem": "; ".join(problems)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--device", default="cuda", choices=("cuda", "host"))
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--trials", type=int, default=7)
    parser.add_argument("--flush-bytes", type=int, default=100 << 20)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--jsonl", help="KernelBench's tasks, a JSON object a line")
    parser.add_argument("--ids", help="of these, comma-separated level/id")
    parser.add_argument("--json", action="store_true", help="one JSON object a task instead of the table")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    with tempfile.TemporaryDirectory() as run_dir:
        judge = DeviceJudge(run_dir, options.device, timeout_s=600)
        if not options.json:
            print(json.dumps(judge.ask(op="device", device=options.device)))
            print(f"{'task':<28}" + "".join(f"{c:>9}" for c in COLUMNS) + "   passed sets gold")
        failed = 0
        for name, code in tasks(options):
            row = measure(judge, code, options)
            failed += bool(row["problem"])
            if options.json:
                print(json.dumps({"task": name, **row}), flush=True)
                continue
            print(f"{name[:27]:<28}" + "".join(f"{row.get(c, '-'):>9}" for c in COLUMNS) +
                  f"   {row.get('passed', '-'):>6} {row.get('sets', '-'):>4} {row.get('gold', '-')}", flush=True)
            if row["problem"]:
                print(f"  {row['problem']}", flush=True)
        judge.ask(op="release")
        judge.end()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
