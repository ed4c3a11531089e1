#!/usr/bin/env python3
"""Two backends over the same candidates: where do their verdicts agree?

    python3 bench/cuda/agreement.py cuda.jsonl vgpu.jsonl --out agreement.json
    python3 bench/cuda/agreement.py cuda.jsonl vgpu.jsonl --notes why.json

Both files are what `musacoder verify --batch` wrote over the same rows, which are matched by task_id and name (else by task
and key). Printed: the matrix of status classes, how many agree, and every disagreement with both statuses and causes: first
those that both decided, then those where one side could not (unsupported, inconclusive, invalid_task, infra). With --strict
two statuses of one class, such as two kinds of cheating, are a disagreement too. --notes is a JSON object from "task name" to
why the two differ; it stands beside the disagreement. Rows that one file lacks are counted, and named with --all.
"""

import argparse
import collections
import json
import sys

import common

CLASSES = ["ok", "correctness_error", "cheating", "runtime_error", "compile_error", "unsupported", "inconclusive", "invalid_task", "infra"]
UNDECIDED = {"unsupported", "inconclusive", "invalid_task", "infra"}


def class_of(status):
    return status.split(":")[0]


def key_of(verdict):
    return f"{verdict.get('task_id') or verdict.get('task') or ''} {verdict.get('name') or verdict.get('key') or ''}".strip()


def by_key(path):
    """({key: verdict}, number of verdicts that another of the same key replaced)."""
    found, repeated = {}, 0
    for verdict in common.read_jsonl(path):
        if "status" not in verdict:
            continue
        repeated += key_of(verdict) in found
        found[key_of(verdict)] = verdict
    return found, repeated


def compare(left, right, strict=False):
    matrix = collections.Counter()
    differing = []
    for key in sorted(left.keys() & right.keys()):
        a, b = left[key]["status"], right[key]["status"]
        matrix[class_of(a), class_of(b)] += 1
        if a != b if strict else class_of(a) != class_of(b):
            differing.append({"key": key, "decided": class_of(a) not in UNDECIDED and class_of(b) not in UNDECIDED, "left": a, "right": b,
                              "left_cause": left[key].get("cause", ""), "right_cause": right[key].get("cause", ""),
                              "left_scaled": bool(left[key].get("scaled")), "right_scaled": bool(right[key].get("scaled"))})
    differing.sort(key=lambda d: (not d["decided"], d["left"], d["right"], d["key"]))
    return matrix, differing


def counts(matrix):
    decided = {pair: n for pair, n in matrix.items() if not set(pair) & UNDECIDED}
    return {"both": sum(matrix.values()), "same_class": sum(n for (a, b), n in matrix.items() if a == b), "decided": sum(decided.values()),
            "decided_same_class": sum(n for (a, b), n in decided.items() if a == b),
            "decided_same_side": sum(n for (a, b), n in decided.items() if (a == "ok") == (b == "ok"))}


def share(part, whole):
    return f"{part} of {whole}" + (f" ({100 * part / whole:.1f} %)" if whole else "")


def print_matrix(matrix, names):
    rows = [c for c in CLASSES if any(a == c for a, _ in matrix)]
    columns = [c for c in CLASSES if any(b == c for _, b in matrix)]
    common.table([f"{names[0]} \\ {names[1]}", *columns, "all"],
                 [(r, *[matrix[r, c] or "" for c in columns], sum(matrix[r, c] for c in columns)) for r in rows]
                 + [("all", *[sum(matrix[r, c] for r in rows) for c in columns], sum(matrix.values()))])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("left", help="verdicts, such as those of cuda")
    parser.add_argument("right", help="verdicts, such as those of vgpu")
    parser.add_argument("--names", default="", help="of the two, separated by a comma (default: their backends)")
    parser.add_argument("--strict", action="store_true", help="another status of the same class is a disagreement too")
    parser.add_argument("--notes", help="JSON: key of a disagreement to its explanation")
    parser.add_argument("--all", action="store_true", help="name the rows that one file lacks")
    parser.add_argument("--out", help="JSON with everything")
    options = parser.parse_args()
    (left, left_repeated), (right, right_repeated) = by_key(options.left), by_key(options.right)
    for path, verdicts in ((options.left, left), (options.right, right)):
        if not verdicts:
            parser.error(f"{path} has no verdicts")
    notes = {}
    if options.notes:
        with open(options.notes, encoding="utf-8") as file:
            notes = json.load(file)
    names = options.names.split(",") if options.names else [next(iter(v.values())).get("backend", "?") for v in (left, right)]
    if names[0] == names[-1]:
        names = ["first", "second"]
    matrix, differing = compare(left, right, options.strict)
    found = counts(matrix)
    alone = [sorted(left.keys() - right.keys()), sorted(right.keys() - left.keys())]

    common.say(f"{found['both']} candidates in both; {len(alone[0])} only in {names[0]}, {len(alone[1])} only in {names[1]}"
               + (f"; repeated keys, the last counts: {left_repeated} and {right_repeated}" if left_repeated or right_repeated else "") + "\n")
    print_matrix(matrix, names)
    common.table(["", "of those that both judged"],
                 [("same status class", share(found["same_class"], found["both"])),
                  ("decided by both", share(found["decided"], found["both"])),
                  ("same class where both decided", share(found["decided_same_class"], found["decided"])),
                  ("same answer, verified or not, where both decided", share(found["decided_same_side"], found["decided"]))])
    for decided, title in ((True, "Decided otherwise"), (False, "Not decided by one")):
        some = [d for d in differing if d["decided"] == decided]
        if some:
            common.say(f"## {title}: {len(some)}\n")
            common.table(["candidate", names[0], names[1], f"cause, {names[0]}", f"cause, {names[1]}", "why"],
                         [(d["key"], d["left"], d["right"] + (" (scaled)" if d["right_scaled"] else ""), common.one_line(d["left_cause"]),
                           common.one_line(d["right_cause"]), notes.get(d["key"], "")) for d in some])
    if options.all:
        for name, keys in zip(names, alone, strict=True):
            for key in keys:
                common.say(f"only in {name}: {key}")
    unexplained = sum(d["key"] not in notes for d in differing)
    if options.notes:
        common.say(f"{unexplained} of {len(differing)} disagreements have no explanation")
    common.write_json(options.out, {"program": "agreement.py", "names": names, **found,
                                    "matrix": [{"left": a, "right": b, "count": n} for (a, b), n in sorted(matrix.items())],
                                    "disagreements": [{**d, "why": notes.get(d["key"])} for d in differing],
                                    "only_left": alone[0], "only_right": alone[1]})
    return 0


if __name__ == "__main__":
    sys.exit(main())
