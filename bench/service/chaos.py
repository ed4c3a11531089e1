"""A cluster whose processes are killed at random: does every job end once, with the verdict of a quiet run?

    bench/service/chaos.py --jobs 2000 --queue nats
    bench/service/chaos.py --jobs 2000 --queue sqlite --candidates real_candidates.jsonl

Service, 2 compile and 2 execute workers (vgpu) and, with --queue nats, a nats-server. All that they write lies in one
folder: queue, store, artefacts and scratch on a small tmpfs of its own where mounting is possible, which is filled up
for a while. Jobs are corpus cases, honest and hostile, and real answers, each with a seed of its own, so that none is
answered from another's verdict; builds come from the cache after the first time. First a quiet run judges each
distinct content once; then the storm. Prints one JSON line; exit status 1 when something is wrong.
"""

import argparse
import collections
import contextlib
import http.client
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))
from service_support import Nats, Process, Server  # noqa: E402


def corpus_cases(sets, most):
    """(name, job) of corpus cases, in a fixed order that mixes the sets."""
    found = []
    for chosen in sets:
        for case in sorted((ROOT / "corpus" / chosen).glob("*/case.toml")):
            facts = tomllib.loads(case.read_text(encoding="utf-8"))
            task = ROOT / "tasks" / f"{facts.get('task', '')}.py"
            candidate = case.parent / facts.get("candidate", "candidate.py")
            # Those that hang until their limits would be minutes of nothing.
            if "timeout" in facts.get("expect", "") or not task.exists() or not candidate.exists():
                continue
            found.append(
                (
                    f"{chosen}/{case.parent.name}",
                    {
                        "task": facts["task"],
                        "reference": task.read_text(encoding="utf-8"),
                        "candidate": candidate.read_text(encoding="utf-8", errors="replace"),
                        "candidate_name": candidate.name,
                        "policy": facts.get("policy", "strict"),
                    },
                )
            )
    random.Random(1).shuffle(found)
    return found[:most]


def real_cases(path, most):
    found = []
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row.get("candidate") and row.get("reference"):
            job = {
                "task": str(row.get("task", "real"))[:200],
                "reference": row["reference"],
                "candidate": row["candidate"],
            }
            found.append((f"real/{len(found)}", job))
    random.Random(2).shuffle(found)
    return found[:most]


class Cluster:
    def __init__(self, folder, queue, compilers=2, executors=2, nats_store=None, cache=None):
        self.folder, self.kind = pathlib.Path(folder), queue
        self.folder.mkdir(parents=True, exist_ok=True)
        self.scratch = self.folder / "scratch"
        self.scratch.mkdir(exist_ok=True)
        self.nats_store = nats_store or self.folder / "nats"
        self.env = {"MUSACODER_TMPDIR": str(self.scratch)}
        if cache:
            self.env["MUSACODER_CACHE"] = str(cache)
        self.port = 0
        self.running, self.kills = {}, collections.Counter()
        self.names = (["nats"] if queue == "nats" else []) + ["server"]
        self.names += [f"compile{i}" for i in range(compilers)] + [f"execute{i}" for i in range(executors)]
        for name in self.names:
            self.start(name)

    def url(self):
        return self.running["nats"].url if self.kind == "nats" else f"sqlite:{self.folder}/queue.db"

    def start(self, name, patience=60):
        if name == "nats":
            if "nats" in self.running:
                self.running["nats"].start()
            else:
                self.running["nats"] = Nats(self.nats_store)
            return
        end = time.monotonic() + patience
        while True:
            try:
                if name == "server":
                    # Deaths and faults are what the storm makes: a job may meet many of them by chance.
                    self.running[name] = Server(
                        "--queue", self.url(), "--store", self.folder / "verdicts.db", "--no-lanes", "--max-deaths", 100,
                        "--max-faults", 100, "--artifacts", self.folder / "artifacts", port=self.port, env=self.env,
                    )  # fmt: skip
                    self.port = self.running[name].port
                else:
                    role = name.rstrip("0123456789")
                    self.running[name] = Process(
                        "worker", "--queue", self.url(), "--role", role, "--visibility", 5, env=self.env
                    )
                return
            except RuntimeError as error:  # the disk is full, nats is away
                if time.monotonic() > end:
                    raise
                last = str(error)[-300:]
                print(f"# {name} did not start, again: {last}", file=sys.stderr)
                time.sleep(1)

    def kill(self, name):
        self.running[name].kill()
        if name != "nats":
            self.running[name].close()
        self.kills[name] += 1

    def call(self, method, path, body=None, seconds=120):
        """Until the server answers; 5xx and broken connections are tried again."""
        end = time.monotonic() + seconds
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException, json.JSONDecodeError):
                status, value, _ = self.running["server"].call(method, path, body, timeout=60)
                if status < 500 and status != 429:
                    return status, value
            if time.monotonic() > end:
                raise RuntimeError(f"{method} {path}: no answer for {seconds} s")
            time.sleep(0.2)

    def submit(self, jobs):
        """Ids in the order of `jobs`; idempotency keys make repeating harmless."""
        ids = []
        for at in range(0, len(jobs), 50):
            status, value = self.call("POST", "/v1/jobs", {"jobs": jobs[at : at + 50]})
            assert status in (200, 202), (status, value)
            ids += [view["id"] for view in value["jobs"]]
        return ids

    def ended(self):
        return self.call("GET", "/v1/queue")[1]["ended"]

    def views(self, ids):
        return [self.call("GET", f"/v1/jobs/{one}")[1] for one in ids]

    def wait(self, count, seconds, progress=""):
        end, last = time.monotonic() + seconds, -1
        while (ended := self.ended()) < count:
            if time.monotonic() > end:
                return ended
            if progress and ended // 50 != last // 50:
                print(f"# {progress}: {ended} of {count}", file=sys.stderr)
            last = ended
            time.sleep(0.3)
        return ended

    def close(self):
        for name in reversed(self.names):
            if name in self.running:
                self.running[name].close()


def filler(folder, seconds):
    """Takes all room of the folder's file system, for a while."""
    path = pathlib.Path(folder) / "filler"
    try:
        with open(path, "wb", buffering=0) as file:
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"\0" * 65536)
            time.sleep(seconds)
    finally:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def small_disk(parent, megabytes):
    """(folder, whether it is a file system of its own)."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mc-chaos-", dir=parent))
    mounted = (
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "mc-chaos", folder],
            stderr=subprocess.DEVNULL,
        ).returncode
        == 0
    )
    try:
        yield folder, mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", folder], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def left_overs(scratch):
    """Processes and folders of ours that outlived the cluster."""
    folders = [
        str(one) for place in {scratch, "/dev/shm", "/tmp"} for one in pathlib.Path(place).glob("mc-lanes-*")
    ]
    mine = []
    for folder in folders:  # of other clusters on this machine: their owner lives
        with contextlib.suppress(OSError):
            owner = (pathlib.Path(folder) / "owner").read_text().split("/")
            if not pathlib.Path("/proc", owner[3]).exists():
                mine.append(folder)
    processes = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                environment = (entry / "environ").read_bytes()
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
                if f"MUSACODER_TMPDIR={scratch}".encode() in environment and state != "Z":
                    processes.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:100])
    return mine, processes


def run(options, folder, own_disk, report):
    chance = random.Random(options.seed)
    cases = corpus_cases(options.sets.split(","), options.contents)
    if options.candidates:
        cases += real_cases(options.candidates, options.real)
    print(f"# {len(cases)} contents, {options.jobs} jobs", file=sys.stderr)
    hostile = [(f"garbage/{i}", {**cases[0][1], "candidate": f"nothing to see {i}"}) for i in range(4)]
    cases += hostile

    def job(i, name, case):
        return {**case, "reuse": False, "seed": i + 1, "idempotency_key": f"{i}-{name}"}

    jobs = [job(i, *cases[i % len(cases)]) for i in range(options.jobs)]
    names = [cases[i % len(cases)][0] for i in range(options.jobs)]

    # Quiet: each of the very jobs (same seeds) in small runs, a sample of them in large ones.
    begin = time.monotonic()
    quiet = Cluster(folder / "quiet", options.queue, 1, 1, nats_store=options.stores and options.stores / "quiet",
                    cache=options.cache)  # fmt: skip
    try:
        sample = jobs if options.quiet == "all" else jobs[: len(cases)]
        ids = quiet.submit(sample)
        assert quiet.wait(len(sample), options.patience, "quiet") == len(sample), "the quiet run did not end"
        expected = {key: set() for key in names}
        for name, view in zip(names, quiet.views(ids), strict=False):
            assert view["state"] == "done", (name, view)
            expected[name].add((view["status"], view["reward"]))
    finally:
        quiet.close()
    shutil.rmtree(folder / "quiet", ignore_errors=True)
    report["quiet_s"] = round(time.monotonic() - begin, 1)
    report["quiet_jobs"] = len(sample)
    report["statuses"] = dict(collections.Counter(status for one in expected.values() for status, _ in one))

    begin = time.monotonic()
    cluster = Cluster(folder / "storm", options.queue, 2, 2, nats_store=options.stores and options.stores / "storm",
                      cache=options.cache)  # fmt: skip
    scratch = cluster.scratch
    try:
        ids = cluster.submit(jobs)
        storm_end = time.monotonic() + options.storm
        fill = own_disk and options.fill
        while time.monotonic() < storm_end and (ended := cluster.ended()) < len(jobs):
            time.sleep(chance.uniform(*options.pause))
            # Jobs are on their way by then, however slow the machine is.
            if fill and (ended > len(jobs) * 0.3 or time.monotonic() > storm_end - options.storm / 2):
                fill = False
                print("# the disk is full", file=sys.stderr)
                filler(folder, options.fill)
                report["disk_full_s"] = options.fill
                if options.queue == "nats" and not options.stores:
                    cluster.kill(
                        "nats"
                    )  # 2.9 switches JetStream off when its disk is full, until it starts anew
                    cluster.start("nats")
            victims = min(cluster.names, key=lambda one: cluster.kills[one] + chance.uniform(0, 3))
            cluster.kill(victims)
            if chance.random() < 0.3:
                time.sleep(chance.uniform(0, 2))
            cluster.start(victims)
        ended = cluster.wait(len(jobs), options.patience, "storm")
        report["storm_s"] = round(time.monotonic() - begin, 1)
        report["kills"] = dict(cluster.kills)
        views = cluster.views(ids)
        report["ended"] = ended
        report["unfinished"] = sum(view["state"] in ("queued", "running") for view in views)
        report["deaths_under_jobs"] = sum(view["deaths"] for view in views)
        report["not_done"] = sum(view["state"] not in ("done", "queued", "running") for view in views)
        report["different"] = [
            (name, view["status"], sorted(map(str, expected[name])), (view["verdict"] or {}).get("cause"))
            for name, view in zip(names, views, strict=True)
            if (view["status"], view["reward"]) not in expected[name]
        ][:20]
        # Sending all of it again finds the same jobs with the same ends.
        report["twice"] = len(set(cluster.submit(jobs)) ^ set(ids))
        again = cluster.views(ids[:: max(1, len(ids) // 100)])
        report["changed"] = sum(
            a["verdict"] != b["verdict"]
            for a, b in zip(again, views[:: max(1, len(ids) // 100)], strict=True)
        )
        stats = cluster.call("GET", "/v1/stats")[1]
        report["jobs_per_min"] = round(len(jobs) / report["storm_s"] * 60, 1)
        report["dead"] = stats["queue"]["dead"]
        for name in list(cluster.names):
            if name not in ("nats", "server"):
                cluster.running[name].terminate()
        cluster.running["server"].terminate()
    finally:
        cluster.close()
    time.sleep(1)
    report["folders_left"], report["processes_left"] = left_overs(scratch)
    bad = ("unfinished", "not_done", "different", "twice", "changed", "folders_left", "processes_left")
    report["passed"] = not any(report[key] for key in bad)
    return report


def parser():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--jobs", type=int, default=2000)
    p.add_argument("--queue", choices=["nats", "sqlite"], default="nats")
    p.add_argument("--sets", default="quickstart,honest,cheats", help="folders of corpus/")
    p.add_argument("--contents", type=int, default=40, help="corpus cases")
    p.add_argument("--candidates", help="JSONL of real answers: reference, candidate")
    p.add_argument("--real", type=int, default=20, help="of those")
    p.add_argument("--quiet", choices=["all", "contents"], default="contents")
    p.add_argument("--storm", type=float, default=600, help="seconds of killing at most")
    p.add_argument("--pause", type=float, nargs=2, default=(1, 6), help="seconds between two kills")
    p.add_argument("--fill", type=float, default=20, help="seconds that the disk is full; 0: never")
    p.add_argument("--disk", type=int, default=1024, help="MiB of the disk that is filled")
    p.add_argument("--patience", type=float, default=7200, help="seconds for the rest after the storm")
    p.add_argument("--folder", default="/tmp", help="where to work")
    p.add_argument("--cache", help="build cache; default: the user's")
    p.add_argument("--seed", type=int, default=7)
    p.set_defaults(stores=None)
    return p


def main():
    options = parser().parse_args()
    with small_disk(options.folder, options.disk) as (folder, own_disk):
        report = {
            "jobs": options.jobs,
            "queue": options.queue,
            "own_disk": own_disk,
            "load_before": os.getloadavg()[0],
        }
        run(options, folder, own_disk, report)
    print(json.dumps(report))
    return 0 if report["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
