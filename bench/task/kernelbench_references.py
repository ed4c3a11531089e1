#!/usr/bin/env python3
"""Do the references of KernelBench load, scale and run in float32 and float64 on the reference side, and how fast?

    bench/task/kernelbench_references.py [--levels 1,2,3] [--audit] [--json OUT.jsonl]

Each task is opened at the size for the virtual GPU, run in its own dtype and in float64 on its own inputs (trial 0), and the
eager result is compared with itself. Seconds are of processor time on one thread, which is wall time on an idle machine and
does not depend on what else runs; wall time stands beside it. One line a failure with its reason, then the table. `--references FILE` takes the
`reference` of any other JSON-lines file instead (one run per distinct text).
"""

import argparse
import json
import os
import sys
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "runtime", "python"))

import torch  # noqa: E402
from musaref.audit import audit  # noqa: E402
from musaref.compare import compare  # noqa: E402
from musaref.errors import TaskError  # noqa: E402
from musaref.server import warm  # noqa: E402
from musaref.session import Task  # noqa: E402


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


def rows(options):
    data = os.environ.get("MUSACODER_DATA", os.path.join(ROOT, "..", "shared", "data"))
    path = options.references or os.path.join(data, "kernelbench.jsonl")
    if not os.path.exists(path):
        sys.exit(f"no data at {path}; set MUSACODER_DATA")
    levels = {int(x) for x in options.levels.split(",")}
    seen = set()
    with open(path) as file:
        for line in file:
            row = json.loads(line)
            code = row.get("code") or row.get("reference")
            name = f"level{row.get('level')}/{row.get('id')}"
            if row.get("level") in levels and code not in seen and (not options.ids or name in options.ids.split(",")):
                seen.add(code)
                yield name, code


def check(code, name, with_audit):
    """(status, message, processor seconds, facts)"""
    started, wall = time.process_time(), time.monotonic()
    facts = {}
    try:
        task = Task(code, name)
        opened = time.process_time()
        trial = task.trial(0, 1)
        result = compare(trial.expected, trial.expected.eager)
        ran = time.process_time()
        facts = {"open_s": opened - started, "trial_s": ran - opened, "work": task.scaling.work,
                 "over_budget": task.scaling.over_budget, "constants": len(task.scaling.changes), "wall_s": time.monotonic() - wall}
        seconds = ran - started
        if not result["pass"]:
            return "invalid_task:nondeterministic", result["message"], seconds, facts
        if with_audit:
            report = audit(task)
            facts["audit_s"] = time.process_time() - ran
            facts["audit"] = report["status"]
        return "ok", "", seconds, facts
    except TaskError as error:
        return error.status, error.message, time.process_time() - started, facts


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--levels", default="1,2,3")
    parser.add_argument("--references", help="another JSON-lines file with `reference` or `code`")
    parser.add_argument("--audit", action="store_true", help="also run the trivial candidates")
    parser.add_argument("--json", help="write a JSON line a task here")
    parser.add_argument("--ids", help="only these, as level1/19,…")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    warm()
    out = open(options.json, "w") if options.json else None  # noqa: SIM115  open to the end
    results = []
    for name, code in rows(options):
        status, message, seconds, facts = check(code, name, options.audit)
        results.append((name, status, seconds, facts))
        if status != "ok" or seconds > 10:
            print(f"{name:12} {status:30} {seconds:6.2f} s  {message[:160]}", flush=True)
        if facts.get("audit", "ok") != "ok":
            print(f"{name:12} audit: {facts['audit']}", flush=True)
        if out:
            out.write(json.dumps({"id": name, "status": status, "message": message, "seconds": round(seconds, 4), **facts}) + "\n")
            out.flush()
    seconds = [s for _, status, s, _ in results if status == "ok"]
    good = [r for r in results if r[1] == "ok" and r[2] <= 10]
    print(f"\nconditions: torch {torch.__version__}, {torch.get_num_threads()} thread(s), {os.cpu_count()} cores, "
          f"load {os.getloadavg()[0]:.1f}")
    walls = [f["wall_s"] for *_, f in results if "wall_s" in f]
    print("| references | load, scale, run in float32 and float64 within 10 s | CPU seconds p50 | p95 | max | wall p50 | max | "
          "over budget |")
    print("|---|---|---|---|---|---|---|---|")
    print(f"| {len(results)} | {len(good)} | {percentile(seconds, 0.5):.2f} | {percentile(seconds, 0.95):.2f} | "
          f"{max(seconds, default=0):.2f} | {percentile(walls, 0.5):.2f} | {max(walls, default=0):.2f} | {sum(bool(f.get('over_budget')) for *_, f in results)} |")
    if options.audit:
        audits = [f["audit_s"] for *_, f in results if "audit_s" in f]
        print(f"\naudit: {sum(f.get('audit') == 'ok' for *_, f in results)} ok, seconds p50 {percentile(audits, 0.5):.2f}, "
              f"p95 {percentile(audits, 0.95):.2f}, max {max(audits, default=0):.2f}")


if __name__ == "__main__":
    main()
