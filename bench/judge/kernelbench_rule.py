#!/usr/bin/env python3
"""Candidates on a real GPU under KernelBench's rule, to compare with what MooreEval says and what owners recorded.

    bench/judge/kernelbench_rule.py ROWS.jsonl --out build/rule.jsonl [--jobs 16] [--minutes 8]

ROWS: `key`, `reference`, `candidate` a line, as `bench/judge/real_candidates.py` writes them. The rule, as KernelBench's
evaluation describes it: seed, make both models on the GPU from the same init inputs under the same seed, five trials with
seeded inputs, shapes equal and torch.allclose at 1e-4 for float32 (its present tolerance) and, noted beside it, at 1e-2
(its former one). torch's own headers and build; nothing of MooreEval takes part. Full sizes.

Needs torch with CUDA and nvcc. Compiles in parallel on the CPU first, then runs one candidate a process, --lanes at a time.
Each line of --out: key, stage ("compile", "run", "done"), ok4, ok2, worst (largest absolute difference), error.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

CHILD = r"""
import importlib.util, json, os, sys, traceback
where, mode = sys.argv[1], sys.argv[2]
result = {"stage": "compile"}
def say(**more):
    result.update(more)
    with open(os.path.join(where, "result.json"), "w") as file:
        json.dump(result, file)
def load(name):
    spec = importlib.util.spec_from_file_location(name, os.path.join(where, name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
try:
    import torch
    candidate = load("candidate")
    if mode == "compile":
        say(compiled=True)
        sys.exit(0)
    say(stage="run")
    reference = load("reference")
    seed = 42
    device = torch.device("cuda:0")
    def to_device(x):
        return x.to(device) if isinstance(x, torch.Tensor) else x
    def seeded(s):
        torch.manual_seed(s)
        torch.cuda.manual_seed(s)
    seeded(seed)
    init = [to_device(x) for x in reference.get_init_inputs()]
    with torch.no_grad():
        seeded(seed)
        model = reference.Model(*init).to(device)
        seeded(seed)
        new = candidate.ModelNew(*init).to(device)
        ok4 = ok2 = True
        worst = 0.0
        for trial in range(5):
            seeded(1000 + trial)
            inputs = [to_device(x) for x in reference.get_inputs()]
            seeded(1000 + trial)
            expected = model(*inputs)
            torch.cuda.synchronize()
            seeded(1000 + trial)
            got = new(*inputs)
            torch.cuda.synchronize()
            if expected.shape != got.shape:
                ok4 = ok2 = False
                say(error=f"shape {tuple(got.shape)} for {tuple(expected.shape)}")
                break
            for tolerance in (1e-4, 1e-2):
                close = torch.allclose(expected, got, atol=tolerance, rtol=tolerance)
                if tolerance == 1e-4: ok4 &= close
                else: ok2 &= close
            # In pieces: these tensors can be as large as a third of the memory.
            for a, b in zip(expected.flatten().split(1 << 26), got.flatten().split(1 << 26)):
                worst = max(worst, (a.float() - b.float()).abs().max().item())
            del inputs, expected, got
        say(stage="done", ok4=ok4, ok2=ok2, worst=worst)
except SystemExit:
    raise
except BaseException as error:
    say(error=f"{type(error).__name__}: {error}"[:1500])
"""


def child(row, where, mode, timeout):
    folder = pathlib.Path(where)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "candidate.py").write_text(row["candidate"], encoding="utf-8")
    (folder / "reference.py").write_text(row["reference"], encoding="utf-8")
    env = dict(os.environ, TORCH_EXTENSIONS_DIR=str(folder / "ext"), MAX_JOBS="2", TORCH_CUDA_ARCH_LIST="9.0")
    try:
        done = subprocess.run([sys.executable, "-c", CHILD, str(folder), mode], env=env, timeout=timeout, capture_output=True, text=True)
        tail = (done.stdout + done.stderr)[-300:]
    except subprocess.TimeoutExpired:
        return {"stage": mode, "error": f"timeout after {timeout} s"}
    try:
        result = json.loads((folder / "result.json").read_text())
    except (OSError, ValueError):
        result = {"stage": mode, "error": f"ended with {done.returncode}: {tail}"}
    (folder / "result.json").unlink(missing_ok=True)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows")
    parser.add_argument("--out", required=True)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--lanes", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=60)
    options = parser.parse_args()
    end = time.time() + 60 * options.minutes
    with open(options.rows, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    work = tempfile.mkdtemp(prefix="kernelbench-rule-")

    def one(item):
        number, row = item
        if time.time() > end:
            return {"key": row["key"], "stage": "left out", "error": "no time left"}
        return {"key": row["key"], **child(row, f"{work}/{number}", "compile", 300)}

    with open(options.out, "w", encoding="utf-8") as out:
        lanes = concurrent.futures.ThreadPoolExecutor(options.lanes)
        running = []

        def run(number, row):
            result = {"stage": "left out", "error": "no time left"} if time.time() > end else child(row, f"{work}/{number}", "run", 180)
            return {"key": row["key"], **result}

        def write(result):
            out.write(json.dumps(result) + "\n")
            out.flush()

        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            futures = {pool.submit(one, item): item for item in enumerate(rows)}
            for future in concurrent.futures.as_completed(futures):
                number, row = futures[future]
                result = future.result()
                if result.get("compiled"):
                    running.append(lanes.submit(run, number, row))
                else:
                    write(result)
        for future in concurrent.futures.as_completed(running):
            write(future.result())


if __name__ == "__main__":
    main()
