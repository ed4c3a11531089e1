#!/usr/bin/env python3
"""How much of a public list of CUDA → MUSA names `musacoder port` knows.

    git clone https://github.com/MooreThreads/torch_musa
    bench/port/coverage.py torch_musa/torch_musa/utils/mapping/*.json
    bench/port/coverage.py --candidates ../shared/data/real_candidates.jsonl ../shared/data/cuda_l1.jsonl

A list is a flat JSON object, name to name, as Musify's -m option and torch_musa's mapping folder have it. Every name goes
through the program as a token of C++ (a header as an #include), and back. The lists are read where they lie; nothing of them
belongs to this project. With --candidates: the CUDA names in rows of candidates that no table has.
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLASSES = [
    ("include guards", r"(?:_.*|[A-Z0-9_]+)_H(PP)?_*$|.*_H(PP)?__?$"),
    ("headers", r".*[./].*"),
    ("NPP", r"_*n?(npp|NPP|mtpp)"),
    ("reserved names of compilers", r"__?(nv|NV|cuda|CUDA|clang|CLANG|ignored|UNDEF|LIBCUDACXX|OPENMP)|_[A-Z]|____?"),
    ("cuBLAS", r"cublas|CUBLAS"),
    ("cuDNN", r"cudnn|CUDNN"),
    ("cuFFT", r"cufft|CUFFT"),
    ("cuRAND", r"curand|CURAND"),
    ("cuSPARSE", r"cusparse|CUSPARSE"),
    ("cuSOLVER", r"cusolver|CUSOLVER"),
    ("CUPTI", r"cupti|CUPTI|CUpti|Cupti"),
    ("runtime", r"(make_)?cuda|CUDART"),
    ("driver", r"(make_)?cu[A-Z0-9u]|CU[a-zA-Z_]|CUDA|PFN_cu"),
]


def class_of(name):
    return next((label for label, pattern in CLASSES if re.match(pattern, name)), "others")


def port(program, text, to):
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(text)
        file.flush()
        return subprocess.run([program, "port", "--language", "cpp", "--quiet", "--to", to, file.name], capture_output=True, text=True, check=True).stdout


def line_of(name):
    return f"#include <{name}>" if re.search(r"[./]", name) else name


def name_of(line):
    return line[len("#include <"):-1] if line.startswith("#include") else line


def measure_lists(program, paths):
    names = {}
    for path in paths:
        mapping = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(mapping, dict):
            sys.exit(f"coverage: {path} is no object of names; give a flat JSON list such as torch_musa/utils/mapping/general.json")
        names |= {name: to for name, to in mapping.items() if re.fullmatch(r"[A-Za-z_][\w./]*", name)}
    order = sorted(names)
    there = port(program, "".join(line_of(name) + "\n" for name in order), "musa")
    back = port(program, there, "cuda").splitlines()
    table = collections.defaultdict(collections.Counter)
    lists = collections.defaultdict(list)
    for name, ours, again in zip(order, map(name_of, there.splitlines()), map(name_of, back), strict=True):
        found = "same" if ours == names[name] else "unknown" if ours == name else "other"
        for label in (class_of(name), "all"):
            table[label][found] += 1
            table[label]["names"] += 1
            table[label]["back"] += again == name
        lists[found].append((name, ours, names[name]))
    print(f"{'':30} {'names':>7} {'same':>7} {'other':>6} {'unknown':>8} {'same %':>7} {'comes back':>11}")
    for label in [label for label, _ in CLASSES] + ["others", "all"]:
        row = table[label]
        if row["names"]:
            print(f"{label:30} {row['names']:7} {row['same']:7} {row['other']:6} {row['unknown']:8} {100 * row['same'] / row['names']:7.2f} {row['back']:11}")
    return lists


def measure_candidates(program, paths):
    unknown = collections.Counter()
    rows = 0
    for path in paths:
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder) / "report.json"
            subprocess.run([program, "port", path, "--dry-run", "--quiet", "--report", report], check=True)
            rows += sum(1 for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
            for file in json.loads(report.read_text(encoding="utf-8"))["files"]:
                unknown.update(item["what"] for item in file["attention"] if item["kind"] == "unknown_name")
    print(f"{rows} candidates; CUDA names that the tables lack: {len(unknown)}")
    for name, count in unknown.most_common():
        print(f"  {name} ({count})")
    return not unknown


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=pathlib.Path, help="lists of names (JSON), or with --candidates rows (JSONL)")
    parser.add_argument("--candidates", action="store_true", help="look for names that the tables lack; exit code 1 if there are some")
    parser.add_argument("--list", action="store_true", help="print the names that are unknown or spelled otherwise")
    parser.add_argument("--program", default=ROOT / "build" / "musacoder", help="the musacoder program")
    args = parser.parse_args()
    if args.candidates:
        sys.exit(0 if measure_candidates(args.program, args.files) else 1)
    lists = measure_lists(args.program, args.files)
    if args.list:
        for found in ("other", "unknown"):
            for name, ours, theirs in lists[found]:
                print(f"{found:8} {name} → {ours}, there {theirs}")


if __name__ == "__main__":
    main()
