"""Shares of the programmatic teacher's answers that MooreEval verifies, by family and by schedule.

    ninja -C build teacher_rows
    python bench/synth/teacher.py --build build --seed 200 --tasks 3 --answers 2 --out verdicts.jsonl

Draws `--tasks` tasks of every archetype and as many random graphs, has each answered `--answers` times, judges all answers with
`musacoder verify --batch` and prints two tables. Answers that are already in `--out` are not judged again. Anything that is not verified
is printed with its cause: a fault of the graph, the teacher or the verifier.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile
import time


def table(title, counts):
    print(f"\n| {title} | answers | verified | share |\n|---|---|---|---|")
    for name in sorted(counts):
        total = sum(counts[name].values())
        print(f"| {name} | {total} | {counts[name]['ok']} | {100 * counts[name]['ok'] / total:.1f} % |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", help="build folder with teacher_rows and musacoder")
    parser.add_argument("--musacoder", default="", help="another musacoder than the build's")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tasks", type=int, default=2, help="of each archetype")
    parser.add_argument("--answers", type=int, default=2, help="of each task")
    parser.add_argument("--only", default="", help="archetypes whose name contains this")
    parser.add_argument("--out", default="", help="JSONL of verdicts, added to")
    parser.add_argument("--lanes", type=int, default=0)
    parser.add_argument("verify", nargs="*", help="more options for musacoder verify, after --")
    args = parser.parse_args()
    build = pathlib.Path(args.build)
    rows_program = next(iter(build.rglob("teacher_rows")), None)
    judge = args.musacoder or next((str(p) for p in (build / "musacoder", build / "bin/musacoder", build / "src/cli/musacoder") if p.exists()), "")
    if rows_program is None or not judge:
        sys.exit(f"{build} has no teacher_rows or no musacoder; build both, or name one with --musacoder")
    with tempfile.TemporaryDirectory() as scratch:
        rows = pathlib.Path(scratch) / "rows.jsonl"
        out = pathlib.Path(args.out or pathlib.Path(scratch) / "verdicts.jsonl")
        command = [rows_program, "--seed", str(args.seed), "--tasks", str(args.tasks), "--answers", str(args.answers), "--derive"]
        made = subprocess.run(command + (["--only", args.only] if args.only else []), capture_output=True, text=True, check=False)
        rows.write_text(made.stdout)
        print(made.stderr, end="")
        started = time.monotonic()
        known = sum(1 for _ in out.open()) if out.exists() else 0
        subprocess.run([judge, "verify", "--backend", "vgpu", "--batch", rows, "--out", out, "--lanes", str(args.lanes), *args.verify], check=False)
        seconds = time.monotonic() - started
        families, schedules = collections.defaultdict(collections.Counter), collections.defaultdict(collections.Counter)
        wanted = {json.loads(line)["id"] for line in made.stdout.splitlines()}
        judged = 0
        for line in out.open():
            verdict = json.loads(line)
            judged += 1
            if verdict["id"] not in wanted:
                continue
            status = verdict["status"]
            families[verdict["family"]][status] += 1
            for schedule in set(verdict["schedule"].split("+")):
                schedules[schedule][status] += 1
            if status != "ok":
                print(f"{verdict['id']} {verdict['schedule']}: {status}: {str(verdict.get('cause'))[:300]}")
        total = sum((sum(c.values()) for c in families.values()), 0)
        verified = sum(c["ok"] for c in families.values())
        print(f"\n{verified} of {total} answers verified; {judged - known} judged in {seconds:.0f} s ({60 * (judged - known) / max(seconds, 1e-9):.0f} a minute)")
        disagreements = made.stderr.count("derivation: ")
        print(f"derivations that disagree with their kernels: {disagreements}")
        table("family", families)
        table("schedule", schedules)
        return 0 if verified == total else 1


if __name__ == "__main__":
    sys.exit(main())
