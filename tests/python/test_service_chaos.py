"""Every process of a small cluster killed at random, again and again: each job ends once, with a quiet run's verdict.

Run: MUSACODER_SLOW=1 pytest tests/python/test_service_chaos.py      # a minute each; MUSACODER_CHAOS_S sets the first storm
"""

import http.client
import importlib.util
import os
import random
import time

import pytest
from service_support import PROGRAM, ROOT, Nats, Process, Server, real_job

pytestmark = [
    pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built"),
    pytest.mark.skipif(
        os.environ.get("MUSACODER_SLOW") != "1", reason="set MUSACODER_SLOW=1 to let the storm loose"
    ),
]
STORM_S = float(os.environ.get("MUSACODER_CHAOS_S", "30"))


def test_storm(tmp_path):
    chance = random.Random(7)
    queue, store = f"sqlite:{tmp_path}/q.db", tmp_path / "v.db"
    port = 0

    def start(name):
        if name == "server":
            # Deaths are what this test makes; a job may meet many of them by chance.
            return Server("--queue", queue, "--store", store, "--no-lanes", "--max-deaths", 50, port=port)
        target = queue if name == "sqlite" else f"http://127.0.0.1:{port}"
        return Process("worker", "--queue", target, "--lanes", 1, "--visibility", 3)

    running = {"server": start("server")}
    port = running["server"].port
    running["http"], running["sqlite"] = start("http"), start("sqlite")
    kills = dict.fromkeys(running, 0)
    try:
        server = running["server"]
        jobs = [
            {**real_job(), "candidate": f"nothing to see {i}", "idempotency_key": f"t{i}"} for i in range(120)
        ]
        for i, name in enumerate(["right_relu", "does_not_compile", "fallback_operator", "no_kernel"]):
            jobs.insert(20 * i, real_job(name, idempotency_key=f"r{i}", reuse=False))
        expected = {}
        for job in jobs:
            view = server.post("/v1/jobs", job, expect=202)
            expected[view["id"]] = job["idempotency_key"]
        end = time.monotonic() + STORM_S
        while time.monotonic() < end:
            time.sleep(chance.uniform(0.5, 2.5))
            name = min(running, key=lambda one: kills[one] + chance.uniform(0, 3))  # all of them, in no order
            running[name].kill()
            running[name].close()
            kills[name] += 1
            running[name] = start(name)
        server = running["server"]
        views = {}
        for one, key in expected.items():
            for _ in range(5):
                try:
                    views[key] = server.wait(one)
                    break
                except (ConnectionError, http.client.HTTPException):
                    time.sleep(1)
        statuses = {key: view["status"] for key, view in views.items()}
        # Sending all of them again finds the same jobs, with the same ends.
        again = server.post("/v1/jobs", {"jobs": jobs})
        assert {view["id"] for view in again["jobs"]} == set(expected)
        assert [view["status"] for view in again["jobs"]] == [
            statuses[job["idempotency_key"]] for job in jobs
        ]
        assert all(view["state"] == "done" for view in views.values()), statuses
        assert {statuses[f"t{i}"] for i in range(120)} == {"compile_error:extract"}
        assert statuses["r0"] == "ok"
        assert statuses["r1"].startswith("compile_error")
        assert statuses["r2"].startswith("cheating")
        assert server.get("/v1/queue")["ended"] == len(jobs)
        print(f"killed {kills}; deaths under jobs: {sum(view['deaths'] for view in views.values())}")
    finally:
        for one in running.values():
            one.close()


@pytest.mark.parametrize("queue", ["nats", "sqlite"])
def test_compile_and_execute_workers_in_a_storm(tmp_path, queue):
    """bench/service/chaos.py, small: with compile workers, a restarted nats-server and a full disk."""
    if queue == "nats" and not Nats.PROGRAM:
        pytest.skip("nats-server is not installed")
    spec = importlib.util.spec_from_file_location("chaos", ROOT / "bench" / "service" / "chaos.py")
    chaos = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(chaos)
    options = chaos.parser().parse_args(
        f"--queue {queue} --jobs 60 --contents 6 --storm 25 --pause 0.5 2 --fill 3 --disk 400 --patience 300".split()
    )
    with chaos.small_disk(tmp_path, options.disk) as (folder, own_disk):
        report = chaos.run(options, folder, own_disk, {})
    print(report)
    assert report["passed"], report
    assert report["deaths_under_jobs"] + sum(report["kills"].values()) > 0
