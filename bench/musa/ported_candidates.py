#!/usr/bin/env python3
"""Judge real candidates as CUDA and, ported by `musacoder port`, as MUSA, side by side on the virtual GPU.

    bench/musa/ported_candidates.py --out build/ported --minutes 60           # resumable
    bench/musa/ported_candidates.py --out build/ported --report               # only the tables

Reads real_candidates.jsonl from $MUSACODER_DATA (default ../shared/data). --order takes an earlier run's verdicts (JSONL):
what was verified there comes first, the quickest first. Both verdicts of a candidate have the same seeds. Prints Markdown:
statuses as CUDA against statuses as MUSA, and every difference with both causes.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "judge"))
from real_candidates import read_jsonl, table  # noqa: E402


def order_of(path):
    """sha → (verified before, seconds it took then)."""
    order = {}
    for verdict in read_jsonl(path) if path else ():
        sha = verdict.get("name") or verdict.get("key", "").rsplit("/", 1)[-1]
        order[sha[:10]] = (verdict["status"] != "ok", verdict.get("seconds", {}).get("total", 1e9))
    return order


def ported(rows, out, binary):
    """The rows with their candidates in MUSA's names, by the program itself."""
    source, target = out / "cuda.jsonl", out / "musa.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    done = subprocess.run([binary, "port", source, "-o", target, "--force", "--quiet", "--report", out / "port.json"],
                          check=False)
    if done.returncode != 0:
        sys.exit(f"{binary} port ended with code {done.returncode}")
    return list(read_jsonl(target))


def report(out):
    verdicts = {}
    for verdict in read_jsonl(out / "verdicts.jsonl"):
        verdicts.setdefault(verdict["pair"], {})[verdict["dialect_given"]] = verdict
    pairs = {name: pair for name, pair in verdicts.items() if len(pair) == 2}
    counts = collections.Counter((pair["cuda"]["status"], pair["musa"]["status"]) for pair in pairs.values())
    verified = [pair for pair in pairs.values() if pair["cuda"]["status"] == "ok"]
    also = sum(pair["musa"]["status"] == "ok" for pair in verified)
    print(f"{len(pairs)} candidates judged both ways; {len(verified)} verify as CUDA, {also} of these as MUSA\n")
    table(["as CUDA", "as MUSA", "count"], [(a, b, n) for (a, b), n in counts.most_common()])
    print("### Differences\n")
    table(["candidate", "as CUDA", "as MUSA", "cause as CUDA", "cause as MUSA"],
          [(name, pair["cuda"]["status"], pair["musa"]["status"],
            *[(pair[d].get("cause") or "").replace("|", "/").replace("\n", " ")[:200] for d in ("cuda", "musa")])
           for name, pair in sorted(pairs.items()) if pair["cuda"]["status"] != pair["musa"]["status"]])
    took_wrong = [name for name, pair in pairs.items() if pair["musa"]["dialect"] != "musa" or pair["cuda"]["dialect"] != "cuda"]
    print(f"dialect not recognised: {len(took_wrong)} {took_wrong[:20]}")
    for dialect in ("cuda", "musa"):
        seconds = sorted(pair[dialect]["seconds"]["total"] for pair in pairs.values())
        if seconds:
            print(f"seconds a verdict as {dialect}: median {seconds[len(seconds) // 2]:.1f}, sum {sum(seconds):.0f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--report", action="store_true", help="only print the tables")
    parser.add_argument("--order", type=pathlib.Path, help="verdicts of an earlier run")
    parser.add_argument("--only-ordered", action="store_true", help="leave out candidates that --order does not know")
    parser.add_argument("--minutes", type=float, default=0, help="stop after this long; 0: when all are judged")
    parser.add_argument("--binary", default=str(ROOT / "build" / "musacoder"))
    parser.add_argument("extra", nargs="*", help="more arguments for `musacoder verify --batch`")
    args = parser.parse_args()
    if not args.report:
        data = pathlib.Path(os.environ.get("MUSACODER_DATA", ROOT.parent / "shared" / "data"))
        if not (data / "real_candidates.jsonl").exists():
            sys.exit(f"{data} has no real_candidates.jsonl; set MUSACODER_DATA")
        args.out.mkdir(parents=True, exist_ok=True)
        order = order_of(args.order)
        rows = [{"key": f"{row['run']}/level{row['level']}/{row['id']}/{row['sha'][:10]}", "level": row["level"],
                 "name": f"level{row['level']}/{row['id']}", "reference": row["reference"], "candidate": row["candidate"],
                 "sha": row["sha"][:10]} for row in read_jsonl(data / "real_candidates.jsonl")]
        if args.only_ordered:
            rows = [row for row in rows if row["sha"] in order]
        rows.sort(key=lambda row: order.get(row["sha"], (True, 1e9)))
        both = []
        for cuda, musa in zip(rows, ported(rows, args.out, args.binary), strict=True):
            for dialect, row in (("cuda", cuda), ("musa", musa)):
                both.append({**row, "pair": row["key"], "key": f"{row['key']}/{dialect}", "dialect_given": dialect})
        (args.out / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in both), encoding="utf-8")
        command = [args.binary, "verify", "--backend", "vgpu", "--seed", "20260606", "--batch", args.out / "rows.jsonl", "--out",
                   args.out / "verdicts.jsonl", *args.extra]
        try:
            subprocess.run(command, check=False, timeout=args.minutes * 60 or None)
        except subprocess.TimeoutExpired:
            print(f"stopped after {args.minutes:g} minutes\n")
    report(args.out)


if __name__ == "__main__":
    main()
