#!/usr/bin/env python3
"""The same candidates behind the slim torch headers and behind the full ones: verdicts and times side by side.

    python3 bench/cuda/headers.py rows.jsonl --musacoder build/musacoder --out headers.json

A candidate gets one more include, of a header that only the full set has; the builder then takes that set for the whole candidate.
A first pass builds and judges without timing, a second one times from the caches, a task's two builds after each other. Printed: how
many verdicts are the same, both builds' seconds, and each pair's times with the spread of a build's own calls (p10 to p90).
"""

import argparse
import pathlib
import re
import statistics

import common

ONLY_FULL = "#include <ATen/native/TensorIterator.h>\n"


def with_full_headers(candidate):
    return re.sub(r"(?m)^([^\n]*?)(#include <torch/extension\.h>)", r"\1" + ONLY_FULL + r"\2", candidate)


def headers_of(verdict):
    return "full" if any(build["headers"] == "full" for build in verdict["builds"]) else "slim"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=pathlib.Path, help="JSONL with reference, candidate, name, task_id")
    parser.add_argument("--build-limit", type=float, default=200, help="seconds for the first pass")
    parser.add_argument("--limit", type=float, default=120, help="seconds for the second pass")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("build/headers"))
    parser.add_argument("--out", help="JSON with everything")
    common.add_program_options(parser)
    args = parser.parse_args()

    rows = []
    for row in common.read_jsonl(args.rows):
        if "#include <torch/extension.h>" not in row["candidate"]:
            continue
        task = row.get("task_id") or row.get("id") or ""
        rows += [{**row, "task_id": task, "name": f"{row['name']} slim"},
                 {**row, "task_id": task, "name": f"{row['name']} full", "candidate": with_full_headers(row["candidate"])}]
    options = ["--no-timing"]
    built, first = common.Batch(args.musacoder, rows, args.work / "build", options, args.lanes, args.backend).judge(args.build_limit)
    timed, second = common.Batch(args.musacoder, rows, args.work / "time", [], args.lanes, args.backend).judge(args.limit)

    built, timed = ({verdict["name"]: verdict for verdict in verdicts if verdict["builds"]} for verdicts in (built, timed))
    pairs, same, lines = 0, 0, []
    builds = {"slim": [], "full": []}
    for name in sorted({row["name"].rsplit(" ", 1)[0] for row in rows}):
        for kind, seconds in builds.items():
            if (verdict := built.get(f"{name} {kind}")) and headers_of(verdict) == kind:
                seconds += [build["seconds"] for build in verdict["builds"] if not build["cached"]]
        slim, full = (timed.get(f"{name} {kind}") or built.get(f"{name} {kind}") for kind in ("slim", "full"))
        if not slim or not full:
            continue
        if (headers_of(slim), headers_of(full)) != ("slim", "full"):
            common.say(f"{name}: left out, headers were {headers_of(slim)} and {headers_of(full)}")
            continue
        pairs += 1
        same += slim["status"] == full["status"]
        times = [(verdict.get("timing") or {}).get("candidate") for verdict in (slim, full)]
        if all(times):
            spread = [f"{t['p10']:.4f} – {t['p90']:.4f}" for t in times]
            lines.append([name, slim["status"], full["status"], f"{times[0]['median']:.4f}", f"{times[1]['median']:.4f}",
                          f"{100 * (times[1]['median'] / times[0]['median'] - 1):+.2f} %", *spread])
        else:
            lines.append([name, slim["status"], full["status"], None, None, None, None, None])
    common.say(f"{pairs} candidates behind both: the same status for {same}\n")
    for kind, seconds in builds.items():
        if seconds:
            common.say(f"{kind}: median {statistics.median(seconds):.1f} s a build, {len(seconds)} builds, {args.lanes} at a time")
    common.table(["candidate", "slim", "full", "slim ms", "full ms", "full to slim", "slim p10 – p90", "full p10 – p90"], lines)
    common.write_json(args.out, {"gpu": common.gpu_name(), "passes": [first, second], "pairs": pairs, "same": same, "builds": builds, "table": lines})


if __name__ == "__main__":
    main()
