"""Requests a second and latency of a running build's service, beside the bare judge's time; memory over many submissions.

Run: python bench/service/load.py [--submissions 20000]        # prints; asserts nothing

Cached jobs: an earlier verdict answers. Trivial jobs: end in the extraction, so that the judge takes least; what the
service adds is the wall time of POST /v1/verify minus the verdict's own seconds.total.
"""

import argparse
import concurrent.futures
import http.client
import json
import pathlib
import statistics
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))
from service_support import Server  # noqa: E402

local = threading.local()


def post(port, path, body):
    if not hasattr(local, "connection"):
        local.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        local.connection.connect()
    begin = time.perf_counter()
    local.connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    reply = local.connection.getresponse()
    view = json.loads(reply.read())
    return time.perf_counter() - begin, reply.status, view


def percentiles(seconds):
    ordered = sorted(seconds)
    return f"p50 {1000 * statistics.median(ordered):.2f} ms, p99 {1000 * ordered[int(0.99 * (len(ordered) - 1))]:.2f} ms"


def resident_mib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--submissions", type=int, default=20000, help="cached submissions for the memory figure"
    )
    parser.add_argument("--queue", default="sqlite")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        queue = f"sqlite:{folder}/q.db" if arguments.queue == "sqlite" else "memory"
        server = Server("--tasks", ROOT / "tasks", "--queue", queue, "--lanes", 1)
        try:
            job = {"candidate": "no code", "task": "activation/1_relu"}
            post(server.port, "/v1/verify", job)

            times = [post(server.port, "/v1/verify", job)[0] for _ in range(1000)]
            print(f"cached, one client:   {1000 / sum(times):.0f} a second, {percentiles(times)}")

            with concurrent.futures.ThreadPoolExecutor(32) as pool:
                begin = time.perf_counter()
                times = [r[0] for r in pool.map(lambda _: post(server.port, "/v1/verify", job), range(3000))]
                wall = time.perf_counter() - begin
            print(f"cached, 32 clients:   {3000 / wall:.0f} a second, {percentiles(times)}")

            added, judged = [], []
            for i in range(300):
                seconds, _, view = post(server.port, "/v1/verify", {**job, "candidate": f"no code {i}"})
                bare = view["verdict"]["seconds"]["total"]
                judged.append(bare)
                added.append(seconds - bare)
            print(
                f"trivial, one client:  judge alone {percentiles(judged)}; added by the service {percentiles(added)}"
            )

            held = {**job, "reference": "class Model: pass", "deadline_s": 20}
            waiting = []
            for i in range(500):
                c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
                c.request(
                    "POST",
                    "/v1/verify",
                    json.dumps({**held, "candidate": f"waits {i}"}),
                    {"Content-Type": "application/json"},
                )
                waiting.append(c)
            seconds = []
            for c in waiting:
                reply = c.getresponse()
                view = json.loads(reply.read())
                assert reply.status == 200, view
                seconds.append(view["queued_s"])
                c.close()
            print(f"500 clients at once:  all answered, waited in the queue {percentiles(seconds)}")

            marks = []
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                step = max(1, arguments.submissions // 5)
                for done in range(0, arguments.submissions, step):
                    batch = [job] * 100
                    list(
                        pool.map(
                            lambda _, b=batch: post(server.port, "/v1/jobs", {"jobs": b}),
                            range(step // 100 or 1),
                        )
                    )
                    marks.append(f"{done + step}: {resident_mib(server.child.pid):.0f} MiB")
            print("resident after so many submissions: " + ", ".join(marks))
        finally:
            server.close()


if __name__ == "__main__":
    main()
