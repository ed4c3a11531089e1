"""What a model solves of KernelBench, by operator family, from the verdicts of `musacoder evaluate --tasks kernelbench.jsonl …` or of
`musacoder bench --suite kernelbench … --out FILE`.

    python bench/factory/kernelbench_families.py level1.verdicts.jsonl level2.verdicts.jsonl [--k 8] [--json out.json]

A task is solved where one of its samples verified. Families of level 1 are the ranges of its numbers, of level 2 the operator that a task's
name begins with, of level 3 all. pass@k: the unbiased estimate of Chen et al. (arXiv 2107.03374); intervals: 95 %, bootstrap over tasks, seed 1.
Verdicts that are about the task or the machine count for nobody.
"""

import argparse
import collections
import json
import math
import random

LEVEL1 = [(18, "matrix products"), (32, "activations"), (40, "norms"), (46, "pooling"), (53, "reductions"), (87, "convolutions"), (100, "scans, losses, attention")]


def family(level, name):
    if level == 1:
        number = int(name.split("_")[0])
        return next(words for last, words in LEVEL1 if number <= last)
    if level == 2:
        word = name.split("_")[1]
        return {"Gemm": "Gemm, Matmul", "Matmul": "Gemm, Matmul", "BMM": "Gemm, Matmul"}.get(word, word)
    return "networks"


def pass_at(k, n, right):
    return 1.0 if n - right < k else 1.0 - math.comb(n - right, k) / math.comb(n, k)


def interval(values, seed=1):
    draw = random.Random(seed)
    means = sorted(sum(draw.choices(values, k=len(values))) / len(values) for _ in range(1000))
    return means[25], means[974]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verdicts", nargs="+")
    parser.add_argument("--k", type=int, default=8)
    parser.add_argument("--json")
    options = parser.parse_args()
    tasks = collections.defaultdict(list)
    left_out = collections.Counter()
    for path in options.verdicts:
        with open(path) as file:
            for line in file:
                row = json.loads(line)
                status = row["status"]
                if status.startswith(("infra", "invalid_task", "unsupported", "inconclusive")):
                    left_out[status] += 1
                    continue
                tasks[int(row["level"]), row["name"]].append(status)
    result = {"k": options.k, "left_out": dict(left_out), "levels": {}}
    for level in sorted({level for level, _ in tasks}):
        of_level = {name: found for (one, name), found in tasks.items() if one == level}
        one = [sum(s == "ok" for s in found) / len(found) for found in of_level.values()]
        many = [pass_at(min(options.k, len(found)), len(found), sum(s == "ok" for s in found)) for found in of_level.values()]
        groups = collections.defaultdict(lambda: [0, 0, 0, 0])
        for name, found in of_level.items():
            group = groups[family(level, name)]
            right = sum(s == "ok" for s in found)
            for at, value in enumerate((right > 0, 1, right, len(found))):
                group[at] += value
        failures = collections.Counter(s.split(":")[0] for found in of_level.values() for s in found)
        numbers = {}
        for title, values in (("pass@1", one), (f"pass@{options.k}", many)):
            low, high = interval(values)
            numbers[title] = [round(100 * v, 1) for v in (sum(values) / len(values), low, high)]
        result["levels"][level] = {"tasks": len(of_level), **numbers, "statuses": dict(failures),
                                   "families": {name: dict(zip(("solved", "tasks", "verified", "samples"), counts, strict=True)) for name, counts in groups.items()}}
        print(f"level {level}: {len(of_level)} tasks, " + ", ".join(f"{title} {v[0]} [{v[1]}, {v[2]}]" for title, v in numbers.items()))
        for name, (solved, count, right, samples) in sorted(groups.items(), key=lambda item: -item[1][1]):
            print(f"  {name:28} solved {solved:3} of {count:3}   verified {right:4} of {samples:4}")
        print("  " + ", ".join(f"{name} {count}" for name, count in failures.most_common()))
    if left_out:
        print("left out:", ", ".join(f"{name} {count}" for name, count in left_out.items()))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
