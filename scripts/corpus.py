#!/usr/bin/env python3
"""The corpus as rows for `musacoder verify --batch`, and the comparison of verdicts with what the cases expect.

    scripts/corpus.py rows quickstart > rows.jsonl               # one row a case
    musacoder verify --batch rows.jsonl --out verdicts.jsonl
    scripts/corpus.py check verdicts.jsonl                       # table; exit code 1 if a case got another status
    scripts/corpus.py run quickstart cheats --out build/corpus   # all of it in one go

A case is a folder corpus/<set>/<name>/ with case.toml and the candidate (docs/corpus.md). `expect` is one status or a
list; an entry that ends with ":*" allows the whole class.
"""

import argparse
import fnmatch
import json
import os
import pathlib
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]
SETS = ("quickstart", "honest", "cheats", "musa", "cases")
KEYS = {"task", "candidate", "expect", "policy", "why", "says", "never_says"}


def load_case(folder):
    """One case as a dict: name, set, task, candidate (path), expect (list), policy, why. Raises ValueError."""
    with open(folder / "case.toml", "rb") as file:
        data = tomllib.load(file)
    unknown = set(data) - KEYS
    missing = {"task", "candidate", "expect", "why"} - set(data)
    if unknown or missing:
        raise ValueError(f"{folder}/case.toml: unknown keys {sorted(unknown)}, missing keys {sorted(missing)}")
    expect = data["expect"]
    return {
        "set": folder.parent.name,
        "name": f"{folder.parent.name}/{folder.name}",
        "task": data["task"],
        "task_path": ROOT / "tasks" / f"{data['task']}.py",
        "candidate_path": folder / data["candidate"],
        "expect": [expect] if isinstance(expect, str) else list(expect),
        "policy": data.get("policy", "strict"),
        "says": list(data.get("says", [])),
        "never_says": list(data.get("never_says", [])),
        "why": data["why"],
    }


def load_cases(sets=SETS, pattern="*"):
    cases = []
    for name in sets:
        for toml in sorted((ROOT / "corpus" / name).glob("*/case.toml")):
            case = load_case(toml.parent)
            if fnmatch.fnmatch(case["name"], pattern) or fnmatch.fnmatch(toml.parent.name, pattern):
                cases.append(case)
    return cases


def row(case):
    """The case as one row of a batch: reference and candidate as text, the rest carried through to the verdict."""
    return {
        "key": case["name"],
        "case": case["name"],
        "name": case["task"],
        "level": int(case["task"].split("/")[-1][0]),
        "reference": case["task_path"].read_text(encoding="utf-8"),
        "candidate": case["candidate_path"].read_bytes().decode("utf-8", errors="replace"),
        "policy": case["policy"],
        "expect": case["expect"],
        "why": case["why"],
    }


def matches(status, expect):
    return any(status == e or (e.endswith(":*") and status.startswith(e[:-1])) for e in expect)


# What a reader of the verdict sees of it: not the case's own text, nor names of folders and versions.
_READ = ("status", "cause", "levels", "builds", "exception", "fault", "ledger", "outside", "refused_ops", "notes", "trials")


def misses(case, verdict):
    """What the verdict should say and does not, or says and should not: a list of sentences."""
    text = json.dumps({key: verdict[key] for key in _READ if key in verdict}, ensure_ascii=False)
    text = text.replace('\\"', '"')
    return [f"does not say {part!r}" for part in case["says"] if part not in text] + [
        f"says {part!r}" for part in case["never_says"] if part in text]


def read_verdicts(path):
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.strip():
                yield json.loads(line)


def musacoder():
    return pathlib.Path(os.environ.get("MUSACODER", ROOT / "build" / "musacoder"))


def run_sets(cases, out, lanes=None, backend=None):
    """Judges the cases with one batch per policy; returns {case name: verdict}."""
    out.mkdir(parents=True, exist_ok=True)
    verdicts = {}
    for policy in sorted({case["policy"] for case in cases}):
        rows, results = out / f"rows-{policy}.jsonl", out / f"verdicts-{policy}.jsonl"
        with open(rows, "w", encoding="utf-8") as file:
            for case in cases:
                if case["policy"] == policy:
                    file.write(json.dumps(row(case)) + "\n")
        results.unlink(missing_ok=True)
        command = [musacoder(), "verify", "--batch", rows, "--out", results, "--policy", policy]
        if backend:
            command += ["--backend", backend]
        if lanes:
            command += ["--lanes", str(lanes)]
        done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL)
        if not results.exists():
            raise RuntimeError(f"{musacoder()} ended with code {done.returncode} and wrote no verdicts")
        for verdict in read_verdicts(results):
            verdicts[verdict.get("case", "")] = verdict
    return verdicts


def print_table(cases, verdicts):
    """Prints one line a case; returns how many did not get an expected status."""
    width = max(len(case["name"].split("/", 1)[1]) for case in cases)
    wrong = 0
    for case in cases:
        verdict = verdicts.get(case["name"])
        status = verdict["status"] if verdict else "no verdict"
        wrong_words = misses(case, verdict) if verdict else []
        good = matches(status, case["expect"]) and not wrong_words
        wrong += not good
        seconds = (verdict or {}).get("seconds", {}).get("total")
        line = f"{'✓' if good else '✗'} {case['name'].split('/', 1)[1]:<{width}}  {case['task']:<38}  {status}"
        if seconds is not None:
            line = f"{line:<{width + 76}}  {seconds:5.1f} s"
        print(line)
        if not good:
            cause = f" ({verdict['cause']})" if verdict and verdict.get("cause") else ""
            print(f"    expected {' or '.join(case['expect'])}{cause}" + "".join(f"; the verdict {what}" for what in wrong_words))
    print(f"{len(cases) - wrong} of {len(cases)} cases got the status they must get")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    rows = commands.add_parser("rows", help="print the rows of one or more sets")
    rows.add_argument("sets", nargs="+", choices=SETS)
    check = commands.add_parser("check", help="compare verdicts with what the cases expect")
    check.add_argument("verdicts", nargs="+", type=pathlib.Path)
    run = commands.add_parser("run", help="judge sets and compare")
    run.add_argument("sets", nargs="+", choices=SETS)
    run.add_argument("--case", default="*", help="only cases whose name matches this pattern")
    run.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "corpus")
    run.add_argument("--lanes", type=int)
    run.add_argument("--backend", help="as of musacoder verify; default: its own")
    args = parser.parse_args()

    if args.command == "rows":
        for case in load_cases(args.sets):
            print(json.dumps(row(case)))
        return 0
    if args.command == "run":
        cases = load_cases(args.sets, args.case)
        verdicts = run_sets(cases, args.out, args.lanes, args.backend)
    else:
        verdicts = {v.get("case", ""): v for path in args.verdicts for v in read_verdicts(path)}
        cases = [case for case in load_cases() if case["name"] in verdicts]
    if not cases:
        print("no case found", file=sys.stderr)
        return 2
    return 1 if print_table(cases, verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
