#!/usr/bin/env python3
"""KernelBench's evaluation and ours on the same machine, the same candidates, in the same run.

    python3 bench/cuda/kernelbench_side_by_side.py rows.jsonl --jobs 12 --limit 220 --out side.json
    python3 bench/cuda/kernelbench_side_by_side.py rows.jsonl --dry-run
    python3 bench/cuda/kernelbench_side_by_side.py rows.jsonl --device cpu --skip-ours   # tries the program without a GPU

Rows: `reference`, `candidate` and a name (`key`, `name` or `task_id`) a line.

KernelBench, as scripts/run_and_check.py with its defaults does it (its repository, 2026; our own code): a fresh process a
candidate with empty caches for extensions and inductor, torch's headers and load_inline; seed 42; 5 correctness trials, inputs
made on the host, torch.allclose at 1e-4; then 100 timed trials of the candidate after 3 warm-up calls and 1 that is discarded, a
256 MiB fill before each; 100 of the reference (its check for excessive speed-ups); then what its script does for its baselines:
the reference eager and under torch.compile, 100 trials each. `evaluation` below is without these baselines, `script` with them.
With --jobs above 1 so many processes import, make the reference and compile beside each other, which makes each of them
slower; from the first correctness trial on one has the GPU at a time, and waiting for it is not counted.

Ours: `musacoder verify --batch` with everything on, three times: `cold` (empty cache: compilers, builds, baselines and audits
are made), `warm` (the same cache, other seeds; --copies of each row, so that the rate is not that of the start) and `rebuilt`
(the artefacts of the builds removed, precompiled headers kept). Seconds of a verdict are without its wait for the GPU.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import common

TIMEOUT_S = 300   # of one candidate, as in its script

CHILD = r'''
import time
began = time.perf_counter()
import fcntl, json, os, sys
folder, device_name, baselines = sys.argv[1], sys.argv[2], sys.argv[3] == "1"
result = {"stage": "import", "seconds": {}}
clock = [began]

def save(**more):
    result.update(more)
    with open(os.path.join(folder, "result.json"), "w") as file:
        json.dump(result, file)

def done(stage, following):
    now = time.perf_counter()
    result["seconds"][stage] = now - clock[0]
    clock[0] = now
    save(stage=following)

def text(name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return file.read()

try:
    import numpy, torch
    gpu = device_name == "cuda"
    device = torch.device("cuda:0" if gpu else "cpu")
    if gpu:
        torch.cuda.set_device(device)
    done("import", "reference")

    def seed(value):
        torch.manual_seed(value)
        if gpu:
            torch.cuda.manual_seed(value)

    def wait():
        if gpu:
            torch.cuda.synchronize(device)

    def moved(values):
        return [v.to(dtype=torch.float32).to(device) if isinstance(v, torch.Tensor) else v for v in values]

    def times(model, inputs, trials=100, warm=3, discarded=1):
        """Milliseconds of each trial, the way of its timing by events."""
        for _ in range(warm):
            model(*inputs)
            wait()
        if gpu:
            torch.cuda.empty_cache()
        ms = []
        for trial in range(trials + discarded):
            wait()
            if gpu:
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                thrash = torch.empty((32, 1024, 1024), dtype=torch.int64, device=device)
                thrash.fill_(42)
                del thrash
                start.record()
                model(*inputs)
                end.record()
                wait()
                taken = start.elapsed_time(end)
            else:
                started = time.perf_counter()
                model(*inputs)
                taken = (time.perf_counter() - started) * 1e3
            if trial >= discarded:
                ms.append(taken)
        return {"mean": float(numpy.mean(ms)), "median": float(numpy.median(ms)), "min": min(ms), "max": max(ms)}

    scope = {}
    exec(compile(text("reference.py"), "<reference>", "exec"), scope)
    seed(42)
    init = moved(scope["get_init_inputs"]())
    with torch.no_grad():
        seed(42)
        reference = scope["Model"](*init)
    get_inputs = scope["get_inputs"]
    done("reference", "compile")

    os.environ["TORCH_USE_CUDA_DSA"] = "1"
    exec(compile(text("candidate.py"), "<candidate>", "exec"), scope)
    wait()
    done("compile", "wait")

    lock = open(os.path.join(os.path.dirname(folder), "gpu.lock"), "w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    done("wait", "correctness")

    with torch.no_grad():
        seed(42)
        candidate = scope["ModelNew"](*init)
        reference = reference.to(device=device, dtype=torch.float32)
        candidate = candidate.to(device=device, dtype=torch.float32)
        wait()
        torch.manual_seed(42)
        seeds = [torch.randint(0, 2**32 - 1, (1,)).item() for _ in range(5)]
        passed = 0
        for value in seeds:
            seed(value)
            inputs = moved(get_inputs())
            seed(value)
            expected = reference(*inputs)
            wait()
            got = candidate(*inputs)
            wait()
            passed += expected.shape == got.shape and torch.allclose(expected, got, atol=1e-4, rtol=1e-4)
            if expected.shape != got.shape:
                break
        del expected, got
        inputs = None
        save(correct=passed == 5, passed=int(passed))
        done("correctness", "time candidate")
        if passed == 5:
            seed(42)
            inputs = moved(get_inputs())
            save(candidate_ms=times(candidate, inputs))
            done("time candidate", "time reference")
            inputs = None
            seed(42)
            inputs = moved(get_inputs())
            save(reference_ms=times(reference, inputs))
            done("time reference", "baselines")
        if gpu:
            torch.cuda.empty_cache()
            wait()
        # Its script measures the baselines whatever the evaluation said.
        for name in ("baseline eager", "baseline compile") if baselines else ():
            inputs = model = None
            scope2 = {}
            exec(compile(text("reference.py"), "<reference>", "exec"), scope2)
            seed(42)
            inputs = [x.to(device) if isinstance(x, torch.Tensor) else x for x in scope2["get_inputs"]()]
            seed(42)
            model = scope2["Model"](*[x.to(device) if isinstance(x, torch.Tensor) else x for x in scope2["get_init_inputs"]()])
            if name.endswith("compile"):
                model = torch.compile(model, backend="inductor", mode="default")
            model = model.to(device)
            wait()
            try:
                save(**{name.replace(" ", "_") + "_ms": times(model, inputs)})
            except Exception as error:
                save(**{name.replace(" ", "_") + "_error": f"{type(error).__name__}: {error}"[:300]})
            done(name, "end")
    save(stage="done")
except BaseException as error:
    save(error=f"{type(error).__name__}: {error}"[:1500])
'''


def row_name(row, number):
    return str(row.get("key") or row.get("name") or row.get("task_id") or number)


class KernelBench:
    def __init__(self, options, folder):
        self.options, self.folder = options, pathlib.Path(folder)
        self.end = time.monotonic() + options.limit
        self.running, self.lock = set(), threading.Lock()

    def one(self, number, row):
        name = row_name(row, number)
        left = self.end - time.monotonic()
        if left < 5:
            return {"name": name, "stage": "left out", "error": "no time left", "seconds": {}}
        where = self.folder / str(number)
        where.mkdir(parents=True)
        (where / "reference.py").write_text(row["reference"], encoding="utf-8")
        (where / "candidate.py").write_text(row["candidate"], encoding="utf-8")
        (where / "child.py").write_text(CHILD, encoding="utf-8")
        env = {**os.environ, "TORCH_EXTENSIONS_DIR": str(where / "extensions"), "TORCHINDUCTOR_CACHE_DIR": str(where / "inductor"),
               "TRITON_CACHE_DIR": str(where / "triton"), "TORCH_CUDA_ARCH_LIST": "9.0"}
        began = time.monotonic()
        with open(where / "output", "w", encoding="utf-8") as output:
            process = subprocess.Popen([sys.executable, str(where / "child.py"), str(where), self.options.device,
                                        "0" if self.options.no_baselines else "1"], env=env, stdout=output, stderr=subprocess.STDOUT,
                                       cwd=where, start_new_session=True)
            try:
                process.wait(timeout=min(left, TIMEOUT_S))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()
        total = time.monotonic() - began
        try:
            result = json.loads((where / "result.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            result = {"stage": "start", "seconds": {}, "error": (where / "output").read_text(errors="replace")[-300:]}
        if result["stage"] != "done" and "error" not in result:
            result["error"] = f"cut at a time limit in '{result['stage']}'"
        seconds = result["seconds"]
        baselines = sum(value for stage, value in seconds.items() if stage.startswith("baseline"))
        # What no stage names is the interpreter's start and end.
        result.update(name=name, script_s=total - seconds.get("wait", 0.0), evaluation_s=total - seconds.get("wait", 0.0) - baselines)
        common.say(f"  {name}: {result['stage']}{', ' + common.one_line(result['error'], 120) if 'error' in result else ''}, compile "
                   f"{seconds.get('compile', 0):.1f} s, evaluation {result['evaluation_s']:.1f} s, script {result['script_s']:.1f} s")
        return result

    def all(self, rows):
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            return list(pool.map(self.one, range(len(rows)), rows))


def ours(options, rows, folder, cache, phase, copies, limit):
    many = [{**row, "task_id": row_name(row, number), "name": f"{row_name(row, number)}#{copy}", "number": number}
            for number, row in enumerate(rows) for copy in range(copies)]
    more = [] if options.backend == "vgpu" else ["--baselines", options.baselines, "--timed-calls", str(options.timed_calls)]
    batch = common.Batch(options.musacoder, many, pathlib.Path(folder) / phase, ["--policy", options.policy, "--trials", "5", *more],
                         options.lanes, options.backend, {"MUSACODER_CACHE": str(cache)})
    verdicts, run = batch.judge(limit)
    seconds = [common.judging_seconds(v) for v in verdicts]
    builds = [build for v in verdicts for build in v.get("builds", [])]
    fresh = [build["seconds"] for build in builds if not build.get("cached")]

    def median(values):
        return statistics.median(values) if values else None

    summary = {"phase": phase, "verdicts": len(verdicts), "of": len(many), "batch_s": run["seconds"], "cut": run["cut"],
               "verdicts_a_minute": 60 * len(verdicts) / run["seconds"], "verified": sum(v["status"] == "ok" for v in verdicts),
               "median_s": median(seconds), "mean_s": statistics.fmean(seconds) if seconds else None, "worst_s": max(seconds, default=None),
               "gpu_lane_s": median([sum(v["seconds"].get(stage, 0) for stage in ("reference", "run", "compare", "time")) for v in verdicts]),
               "fresh_builds": len(fresh), "cached_builds": len(builds) - len(fresh), "warm_builds": sum(bool(b.get("warm")) for b in builds),
               "fresh_build_median_s": median(fresh), "warm_build_median_s": median([b["seconds"] for b in builds if b.get("warm") and not b.get("cached")]),
               "run": run}
    by_row = {}
    for verdict in verdicts:
        timing = verdict.get("timing") or {}
        by_row.setdefault(verdict["number"], []).append(
            {"status": verdict["status"], "cause": common.one_line(verdict.get("cause")), "seconds": verdict["seconds"],
             "judging_s": common.judging_seconds(verdict), "headers": [b.get("headers") for b in verdict.get("builds", [])],
             "candidate_ms": timing["candidate"]["median"] if timing.get("measured") else None,
             "speedup_eager": verdict.get("speedup_eager"), "speedup_compile": verdict.get("speedup_compile")})
    common.say(f"ours, {phase}: {len(verdicts)} of {len(many)} verdicts in {run['seconds']:.1f} s")
    return summary, by_row


def number(value, digits=1):
    return None if value is None else f"{value:.{digits}f}"


def print_tables(options, rows, kernelbench, phases):
    common.say(f"\n## Each candidate (KernelBench: {options.jobs} compile beside each other, the GPU one at a time; ours: {options.lanes} lanes)\n")
    lines = []
    for index, row in enumerate(rows):
        theirs = kernelbench[index] if kernelbench else {"seconds": {}}
        mine = {phase["phase"]: by_row.get(index) for phase, by_row in phases}

        def seconds_of(phase, mine=mine):
            some = mine.get(phase)
            return number(statistics.median(v["judging_s"] for v in some), 2) if some else None

        latest = next((mine[p][0] for p in ("warm", "cold", "rebuilt") if mine.get(p)), {})
        ms = theirs.get("candidate_ms") or {}
        lines.append((row_name(row, index), number(theirs["seconds"].get("compile")), number(theirs.get("evaluation_s")), number(theirs.get("script_s")),
                      theirs.get("correct", theirs.get("error", None) and "error"), seconds_of("cold"), seconds_of("warm"), seconds_of("rebuilt"),
                      latest.get("status"), number(ms.get("mean"), 3), number(latest.get("candidate_ms"), 3)))
    common.table(["candidate", "KernelBench: compile s", "evaluation s", "script s", "correct", "ours: cold s", "warm s", "rebuilt s", "status",
                  "its mean ms", "our median ms"], lines)
    common.say("## Sums\n")
    lines = []
    complete = [r for r in kernelbench if r.get("stage") == "done"]
    for key, title in (("evaluation_s", "KernelBench, evaluation"), ("script_s", "KernelBench, script")):
        values = [r[key] for r in complete]
        if values:
            lines.append((title, f"{len(values)} of {len(rows)}", number(statistics.median(values)), number(statistics.fmean(values)), number(max(values)),
                          number(60 / statistics.fmean(values), 2), "one after the other, from the mean"))
    for phase, _ in phases:
        lines.append((f"ours, {phase['phase']}", f"{phase['verdicts']} of {phase['of']}", number(phase["median_s"], 2), number(phase["mean_s"], 2),
                      number(phase["worst_s"], 2), number(phase["verdicts_a_minute"]),
                      f"the whole batch, {phase['batch_s']:.1f} s; {phase['fresh_builds']} builds"
                      + (f", median {phase['fresh_build_median_s']:.2f} s" if phase["fresh_builds"] else "")
                      + f"; {phase['verified']} verified"))
    common.table(["evaluation", "done", "median s", "mean s", "worst s", "a minute", "how"], lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows")
    common.add_program_options(parser)
    parser.add_argument("--jobs", type=int, default=1, help="KernelBench's processes beside each other until the GPU is needed")
    parser.add_argument("--copies", type=int, default=4, help="of each row in our warm batch")
    parser.add_argument("--baselines", default="eager,compile", help="of ours")
    parser.add_argument("--timed-calls", type=int, default=50)
    parser.add_argument("--policy", default="strict", choices=["strict", "report"])
    parser.add_argument("--no-baselines", action="store_true", help="leave out the baselines of KernelBench's script")
    parser.add_argument("--skip-kernelbench", action="store_true")
    parser.add_argument("--skip-ours", action="store_true")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"], help="cpu: to try the program; its times mean nothing")
    parser.add_argument("--limit", type=float, default=300, help="seconds for KernelBench's part")
    parser.add_argument("--ours-limit", type=float, default=120, help="seconds for our three batches")
    parser.add_argument("--work", help="folder for everything (default: a temporary one)")
    parser.add_argument("--out", help="JSON with everything")
    parser.add_argument("--dry-run", action="store_true", help="check the rows, run nothing")
    options = parser.parse_args()
    rows = common.read_jsonl(options.rows)
    for index, row in enumerate(rows):
        if not isinstance(row.get("reference"), str) or not isinstance(row.get("candidate"), str):
            parser.error(f"row {index + 1} has no `reference` or no `candidate`")
    if not rows:
        parser.error(f"{options.rows} has no rows")
    common.say(f"{len(rows)} candidates")
    if options.dry_run:
        compile(CHILD, "child.py", "exec")
        for index, row in enumerate(rows):
            compile(row["reference"], f"{row_name(row, index)}: reference", "exec")
            compile(row["candidate"], f"{row_name(row, index)}: candidate", "exec")
        return 0
    result = {"program": "kernelbench_side_by_side.py", "gpu": common.gpu_name(), "jobs": options.jobs, "lanes": options.lanes,
              "load": os.getloadavg(), "cores": os.cpu_count(), "timed_calls": options.timed_calls, "baselines": options.baselines}
    kernelbench, phases = [], []
    with tempfile.TemporaryDirectory(prefix="side-by-side-") as temporary:
        work = pathlib.Path(options.work or temporary)
        if not options.skip_ours:
            began = time.monotonic()
            cache = work / "cache"
            shutil.rmtree(cache, ignore_errors=True)
            cache.mkdir(parents=True)
            for phase, copies in (("cold", 1), ("warm", options.copies), ("rebuilt", 1)):
                left = options.ours_limit - (time.monotonic() - began)
                if left < 5:
                    common.say(f"ours, {phase}: left out, no time left")
                    continue
                if phase == "rebuilt":
                    shutil.rmtree(cache / "build", ignore_errors=True)
                phases.append(ours(options, rows, work, cache, phase, copies, left))
                result["ours"] = [{**summary, "candidates": by_row} for summary, by_row in phases]
                common.write_json(options.out, result)
        if not options.skip_kernelbench:
            kernelbench = KernelBench(options, work / "kernelbench").all(rows)
            result["kernelbench"] = kernelbench
            common.write_json(options.out, result)
    print_tables(options, rows, kernelbench, phases)
    common.write_json(options.out, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
