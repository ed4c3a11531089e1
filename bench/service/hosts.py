"""Throughput with 1, 2, 4 workers, each on a host of its own: a network namespace that shares only a bridge with the
server's.

    sudo bench/service/hosts.py --queue nats --jobs 60
    sudo bench/service/hosts.py --queue http --workers 1,2,4

Each host has an address, a cache folder, a copy of the runtime and a scratch folder of its own.
The kernel, the cores and the disk are the same for all of them: what this measures is that workers on other hosts work,
and what the network adds, not more hardware. One JSON line a configuration; the in-process figure comes first.
"""

import argparse
import contextlib
import ctypes
import http.client
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))
sys.path.insert(0, str(ROOT / "bench" / "service"))
import service_support  # noqa: E402
from chaos import corpus_cases  # noqa: E402

NET = "10.213.77"


def sh(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def enter(namespace):
    if (
        ctypes.CDLL(None, use_errno=True).setns(namespace, 0x40000000) != 0
    ):  # CLONE_NEWNET; os.setns needs Python 3.12
        raise OSError(ctypes.get_errno(), "setns")


class Hosts:
    """Network namespaces mc-h0 (the server's, with the bridge) to mc-hN."""

    def __init__(self, count):
        self.names = [f"mc-h{i}" for i in range(count + 1)]
        self.remove()
        for i, name in enumerate(self.names):
            sh("ip", "netns", "add", name)
            sh("ip", "-n", name, "link", "set", "lo", "up")
            if i == 0:
                sh("ip", "-n", name, "link", "add", "br0", "type", "bridge")
                sh("ip", "-n", name, "addr", "add", f"{NET}.1/24", "dev", "br0")
                sh("ip", "-n", name, "link", "set", "br0", "up")
                continue
            sh(
                "ip",
                "-n",
                name,
                "link",
                "add",
                "eth0",
                "type",
                "veth",
                "peer",
                "name",
                f"v{i}",
                "netns",
                self.names[0],
            )
            sh("ip", "-n", self.names[0], "link", "set", f"v{i}", "master", "br0", "up")
            sh("ip", "-n", name, "addr", "add", f"{NET}.{i + 1}/24", "dev", "eth0")
            sh("ip", "-n", name, "link", "set", "eth0", "up")

    def remove(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)

    @contextlib.contextmanager
    def inside(self, host):
        """Processes that are started here live on that host."""
        own = os.open("/proc/self/ns/net", os.O_RDONLY)
        there = os.open(f"/run/netns/{self.names[host]}", os.O_RDONLY)
        try:
            enter(there)
            yield
        finally:
            enter(own)
            os.close(own)
            os.close(there)


def measure(call, jobs):
    """(seconds, workers that took part)."""
    before, begin, ids = call("GET", "/v1/queue")["ended"], time.monotonic(), []
    for at in range(0, len(jobs), 50):
        ids += [view["id"] for view in call("POST", "/v1/jobs", {"jobs": jobs[at : at + 50]})["jobs"]]
    while call("GET", "/v1/queue")["ended"] < before + len(jobs):
        time.sleep(0.1)
    seconds = time.monotonic() - begin
    views = [call("GET", f"/v1/jobs/{one}") for one in ids]
    assert all(view["state"] == "done" for view in views), {view["status"] for view in views}
    return seconds, len({view["worker"] for view in views})


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queue", choices=["nats", "http"], default="nats")
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--jobs", type=int, default=60)
    parser.add_argument("--contents", type=int, default=10)
    options = parser.parse_args()
    counts = [int(one) for one in options.workers.split(",")]
    cases = list(
        itertools.islice(
            itertools.cycle(corpus_cases(["quickstart", "honest"], options.contents)), options.jobs
        )
    )
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mc-hosts-", dir=ROOT / "build"))
    hosts = Hosts(max(counts))

    def environment(name):
        place = folder / name
        if not place.exists():
            shutil.copytree(service_support.PROGRAM.parent / "runtime", place / "runtime")
            (place / "tmp").mkdir()
        return {
            "MUSACODER_CACHE": str(place / "cache"),
            "MUSACODER_RUNTIME": str(place / "runtime"),
            "MUSACODER_TMPDIR": str(place / "tmp"),
            "MUSACODER_PYTHON": str(ROOT / ".venv" / "bin" / "python"),
        }

    def jobs(round_):
        return [
            {**case, "reuse": False, "seed": 1 + i, "idempotency_key": f"{round_}-{i}"}
            for i, (_, case) in enumerate(cases)
        ]

    def report(**facts):
        print(json.dumps({**facts, "jobs": options.jobs, "load": os.getloadavg()[0]}), flush=True)

    try:
        tokens = folder / "tokens.toml"
        tokens.write_text('[[token]]\nname = "all"\ntoken = "bench-bench-bench"\nrole = "admin"\n')

        def serve(*more):
            server = service_support.Process(
                "serve", "--listen", f"{NET}.1:8811", "--token-file", tokens, *more, env=environment("h0")
            )
            server.port = 8811
            return server

        def call(method, path, body=None):
            with hosts.inside(0):
                connection = http.client.HTTPConnection(f"{NET}.1", 8811, timeout=120)
                connection.connect()
            connection.request(method, path, json.dumps(body) if body else None,
                               {"Content-Type": "application/json", "Authorization": "Bearer bench-bench-bench"})  # fmt: skip
            value = json.loads(connection.getresponse().read())
            connection.close()
            return value

        # In one process, twice: the first time builds.
        for title in ("in process, builds included", "in process, builds from the cache"):
            with hosts.inside(0):
                server = serve("--queue", "memory", "--lanes", 1)
            seconds, _ = measure(call, jobs(title))
            report(workers=title, seconds=round(seconds, 1), per_min=round(options.jobs / seconds * 60, 1))
            server.terminate()
            server.close()
        for count in counts:
            with hosts.inside(0):
                nats = None
                if options.queue == "nats":
                    nats = service_support.Nats(folder / f"nats{count}", host=f"{NET}.1")
                server = serve("--queue", nats.url if nats else f"sqlite:{folder}/q{count}.db", "--no-lanes")
            workers = []
            for i in range(1, count + 1):
                with hosts.inside(i):
                    env = {**environment(f"h{i}"), "MUSACODER_TOKEN": "bench-bench-bench"}
                    target = nats.url if nats else f"http://{NET}.1:8811"
                    workers.append(
                        service_support.Process(
                            "worker", "--queue", target, "--name", f"h{i}", "--artifacts", target, env=env
                        )
                    )
            # The first round fills the hosts' caches: what one builds, the others fetch.
            for title in ("first", "second"):
                seconds, busy = measure(call, jobs(f"{title} {count}"))
                report(workers=count, queue=options.queue, round=title, seconds=round(seconds, 1), busy=busy,
                       per_min=round(options.jobs / seconds * 60, 1))  # fmt: skip
            for one in [*workers, server]:
                one.terminate()
                one.close()
            if nats:
                nats.close()
    finally:
        hosts.remove()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
