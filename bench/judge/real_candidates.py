#!/usr/bin/env python3
"""Judge the real model answers of the data folder and compare with what their owners recorded.

    bench/judge/real_candidates.py --out build/real            # both sets, resumable
    bench/judge/real_candidates.py --out build/real --report   # only the tables, from verdicts that are there

Reads real_candidates.jsonl (answers of public KernelBench runs with what their owner's evaluation said) and
cuda_l1.jsonl (+ cuda_l1_h200.jsonl) from $MUSACODER_DATA (default ../shared/data). Prints Markdown: status mix,
confusion table, every disagreement with our cause, and seconds per verdict and stage.
"""

import argparse
import collections
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def read_jsonl(path):
    with open(path, encoding="utf-8") as file:
        for line in file:
            try:
                yield json.loads(line)
            except json.JSONDecodeError:
                continue  # a line cut by a kill is judged again by the batch command


def make_rows(data):
    """Rows for `musacoder verify --batch`: reference, candidate and what we want carried through."""
    for row in read_jsonl(data / "real_candidates.jsonl"):
        run = row["run"]
        yield "real", {
            "key": f"real/{run}/level{row['level']}/{row['id']}/{row['sha'][:10]}",
            "level": row["level"],
            "name": f"level{row['level']}/{row['id']}",
            "run": run,
            "reference": row["reference"],
            "candidate": row["candidate"],
            "recorded": row["recorded"],
        }
    for row in read_jsonl(data / "cuda_l1.jsonl"):
        yield "cuda_l1", {
            "key": f"cuda_l1/level{row['level']}/{row['id']}/{row['sha'][:10]}",
            "level": row["level"],
            "name": f"level{row['level']}/{row['id']}",
            "run": "cuda_l1",
            "reference": row["reference"],
            "candidate": row["candidate"],
            "claimed": row.get("claimed_speedup_vs_eager"),
        }


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(p / 100 * len(values)))] if values else float("nan")


def recorded_class(recorded):
    if not recorded or recorded.get("compiled") is None:
        return "unknown"
    if not recorded["compiled"]:
        return "uncompilable"
    return "correct" if recorded.get("correctness") else "wrong"


def our_class(status):
    return "verified" if status == "ok" else status.split(":")[0]


def table(header, rows):
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    print()


def report(out, data):
    verdicts = list(read_jsonl(out / "verdicts.jsonl"))
    sets = {"real": [], "cuda_l1": []}
    for verdict in verdicts:
        sets["cuda_l1" if verdict.get("run") == "cuda_l1" else "real"].append(verdict)
    for name, rows in sets.items():
        if not rows:
            continue
        print(f"## {name}: {len(rows)} verdicts\n")
        mix = collections.Counter(v["status"].split(":")[0] + ":" + v["status"].split(":", 1)[1].split(":")[0]
                                  if ":" in v["status"] else v["status"] for v in rows)
        table(["status", "count"], mix.most_common())
        total = [v["seconds"]["total"] for v in rows if "total" in v.get("seconds", {})]
        stages = collections.defaultdict(list)
        for v in rows:
            for stage, seconds in v.get("seconds", {}).items():
                stages[stage].append(seconds)
        if total:
            whole = sum(total)
            table(["stage", "median s", "p95 s", "share"],
                  [(s, f"{statistics.median(x):.2f}", f"{percentile(x, 95):.2f}", f"{100 * sum(x) / whole:.0f} %")
                   for s, x in sorted(stages.items())])
    real = sets["real"]
    if real:
        print("### Recorded by the owners against our verdict\n")
        ours = sorted({our_class(v["status"]) for v in real})
        matrix = collections.Counter((recorded_class(v.get("recorded")), our_class(v["status"])) for v in real)
        table(["recorded \\ ours", *ours],
              [[r, *[matrix[(r, o)] or "" for o in ours]] for r in ("correct", "wrong", "uncompilable", "unknown")])
        for wanted, test in (("correct, not verified", lambda r, o: r == "correct" and o != "verified"),
                             ("wrong or uncompilable, verified", lambda r, o: r in ("wrong", "uncompilable") and o == "verified")):
            print(f"### Recorded {wanted}\n")
            hits = [v for v in real if test(recorded_class(v.get("recorded")), our_class(v["status"]))]
            table(["candidate", "status", "cause", "recorded"],
                  [(v["key"], v["status"], (v.get("cause") or "").replace("|", "/").replace("\n", " ")[:160],
                    json.dumps(v.get("recorded"))[:200].replace("|", "/")) for v in hits])
    if sets["cuda_l1"]:
        h200 = {"/".join(r["id"].split("_")[:2]): r for r in read_jsonl(data / "cuda_l1_h200.jsonl")}
        rows = []
        for v in sets["cuda_l1"]:
            seen = h200.get(v["name"].replace("level", ""), {})
            rows.append((v["name"], v["status"], v.get("claimed"), json.dumps(seen)[:220].replace("|", "/")))
        print("### cuda_l1 against the same candidates on an H200\n")
        table(["task", "ours", "claimed", "H200"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--report", action="store_true", help="only print the tables")
    parser.add_argument("--limit", type=int, default=0, help="judge every n-th row so that about this many remain")
    parser.add_argument("--only", default="", help="real or cuda_l1")
    parser.add_argument("--binary", default=str(ROOT / "build" / "musacoder"))
    parser.add_argument("extra", nargs="*", help="more arguments for `musacoder verify --batch`")
    args = parser.parse_args()
    data = pathlib.Path(os.environ.get("MUSACODER_DATA", ROOT.parent / "shared" / "data"))
    if not (data / "real_candidates.jsonl").exists():
        sys.exit(f"{data} has no real_candidates.jsonl; set MUSACODER_DATA")
    args.out.mkdir(parents=True, exist_ok=True)
    if not args.report:
        rows = [row for name, row in make_rows(data) if args.only in ("", name)]
        if args.limit:
            rows = rows[:: max(1, len(rows) // args.limit)]
        with open(args.out / "rows.jsonl", "w", encoding="utf-8") as file:
            for row in rows:
                file.write(json.dumps(row) + "\n")
        subprocess.run([args.binary, "verify", "--batch", args.out / "rows.jsonl", "--out", args.out / "verdicts.jsonl",
                        *args.extra], check=False)
    report(args.out, data)


if __name__ == "__main__":
    main()
