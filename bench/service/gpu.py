#!/usr/bin/env python3
"""Verdicts a minute on a machine with one GPU: in process, and as a service with compile workers beside one GPU lane.

    python3 bench/service/gpu.py rows.jsonl --compile 15 --arch 90 --out gpu.json

Rows are JSONL with reference and candidate. In process is `musacoder verify --batch`; the service is `musacoder serve --no-lanes`
(SQLite queue) with one `worker --role compile --lanes COMPILE` and one `worker --role execute` for each number in --execute of
candidates that are prepared at the same time (the GPU is held by one of them). Each way has a cache of its own and runs every row
twice: once with builds and baselines to be made, once from the caches. Standard library only.
"""

import argparse
import collections
import os
import pathlib
import shutil
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "python"), str(ROOT / "bench" / "cuda")]
import common  # noqa: E402
import service_support  # noqa: E402


def statuses(found):
    return dict(collections.Counter(status.split(":")[0] for status in found))


def in_process(options, rows, folder, judge):
    for round_ in ("first", "second"):
        env = {"MUSACODER_CACHE": str(folder / "cache-batch")}
        batch = common.Batch(options.musacoder, rows, folder / round_, judge, options.lanes, options.backend, env)
        verdicts, run = batch.judge(options.limit)
        yield {"way": f"in process, {options.lanes} lanes", "round": round_, "jobs": len(verdicts), "seconds": run["seconds"],
               "statuses": statuses(v["status"] for v in verdicts)}


def as_service(options, rows, folder, judge, lanes):
    env = {"MUSACODER_CACHE": str(folder / f"cache-{lanes}")}
    shared = folder / f"artifacts-{lanes}"
    server = service_support.Server("--queue", f"sqlite:{folder}/q{lanes}.db", "--no-lanes", "--artifacts", shared, env=env)
    target = f"sqlite:{folder}/q{lanes}.db"
    workers = []
    try:
        for role, count, more in (("compile", options.compile, ["--gpu-arch", options.arch, "--backend", "vgpu"]),
                                  ("execute", lanes, ["--backend", options.backend, *judge])):
            workers.append(service_support.Process("worker", "--queue", target, "--role", role, "--lanes", count,
                                                   "--artifacts", f"dir:{shared}", *more, env=env))
        for round_ in ("first", "second"):
            begin, ids = time.monotonic(), []
            jobs = [{"reference": row["reference"], "candidate": row["candidate"], "reuse": False, "seed": 1 + i,
                     "idempotency_key": f"{round_}-{i}"} for i, row in enumerate(rows)]
            for at in range(0, len(jobs), 20):
                ids += [view["id"] for view in server.post("/v1/jobs", {"jobs": jobs[at : at + 20]}, expect=202)["jobs"]]
            ended = {}
            while len(ended) < len(ids) and time.monotonic() - begin < options.limit:
                time.sleep(0.2)
                for one in ids:
                    if one not in ended and (view := server.get(f"/v1/jobs/{one}"))["state"] in ("done", "failed", "cancelled", "expired"):
                        ended[one] = view
            yield {"way": f"service, {options.compile} compile workers, {lanes} lane{'s' * (lanes > 1)}", "round": round_, "jobs": len(ended),
                   "seconds": time.monotonic() - begin, "statuses": statuses(view["status"] for view in ended.values())}
            if len(ended) < len(ids):
                break
    finally:
        for one in [*workers, server]:
            one.child.terminate()
        for one in [*workers, server]:
            one.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=pathlib.Path)
    parser.add_argument("--compile", type=int, default=15, help="compile workers")
    parser.add_argument("--arch", default="90", help="compute capability of the GPU")
    parser.add_argument("--execute", default="1,4", help="candidates prepared beside each other by the GPU's worker")
    parser.add_argument("--baselines", default="eager")
    parser.add_argument("--limit", type=float, default=150, help="seconds for one round")
    parser.add_argument("--out", help="JSON with everything")
    common.add_program_options(parser)
    options = parser.parse_args()
    service_support.PROGRAM = pathlib.Path(options.musacoder).resolve()
    rows = [row for row in common.read_jsonl(options.rows) if "candidate" in row]
    judge = [] if options.backend == "vgpu" else ["--baselines", options.baselines]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mc-gpu-", dir=os.environ.get("TMPDIR", "/tmp")))
    found = []
    try:
        for rounds in (in_process(options, rows, folder, judge),
                       *(as_service(options, rows, folder, judge, int(lanes)) for lanes in options.execute.split(","))):
            for facts in rounds:
                found.append(facts)
                common.say(str(facts))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    common.table(["way", "round", "jobs", "seconds", "verdicts a minute", "statuses"],
                 [[f["way"], f["round"], f["jobs"], f"{f['seconds']:.1f}", f"{60 * f['jobs'] / f['seconds']:.1f}", f["statuses"]] for f in found])
    common.write_json(options.out, {"gpu": common.gpu_name(), "rounds": found})


if __name__ == "__main__":
    main()
