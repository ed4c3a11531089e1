"""Compile workers and execute workers, as machines that share nothing but a queue and a store of artefacts."""

import shutil
import time

import pytest
from service_support import PROGRAM, ROOT, Nats, Process, Server, real_job

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")


def machine(tmp_path, name):
    """An environment with a cache of its own and the runtime in a folder of its own."""
    runtime = tmp_path / name / "runtime"
    if not runtime.exists():
        # CMake's own files (a gigabyte of precompiled headers) stand among the products of the build.
        shutil.copytree(PROGRAM.parent / "runtime", runtime, ignore=shutil.ignore_patterns("CMakeFiles"))
    return {
        "MUSACODER_CACHE": str(tmp_path / name / "cache"),
        "MUSACODER_RUNTIME": str(runtime),
        "MUSACODER_PYTHON": str(ROOT / ".venv" / "bin" / "python"),
    }


@pytest.mark.parametrize("way", ["nats", "http"])
def test_what_one_machine_compiles_another_executes(tmp_path, way):
    running = []
    try:
        if way == "nats":
            if not Nats.PROGRAM:
                pytest.skip("nats-server is not installed")
            running.append(Nats(tmp_path / "nats"))
            server = Server("--queue", running[0].url, "--no-lanes", env=machine(tmp_path, "server"))
            target = running[0].url
        else:
            server = Server("--queue", "memory", "--no-lanes", env=machine(tmp_path, "server"))
            target = f"http://127.0.0.1:{server.port}"
        running.append(server)
        workers = {
            role: Process("worker", "--queue", target, "--role", role, env=machine(tmp_path, role))
            for role in ("compile", "execute")
        }
        running += workers.values()
        names = {"right_relu": "ok", "does_not_compile": "compile_error:nvcc", "fallback_operator": None}
        jobs = {
            name: server.post("/v1/jobs", real_job(name, reuse=False), expect=202)["id"] for name in names
        }
        for name, job in jobs.items():
            view = server.wait(job)
            assert view["state"] == "done" and view["attempts"] == 1, view
            if names[name]:
                assert view["status"] == names[name]
            built = view["verdict"]["builds"]
            assert all(one["cached"] for one in built), built
        compiled = [event["job"] for event in workers["compile"].events("job_compiled")]
        assert sorted(compiled) == sorted(jobs.values()), "each once"
        assert not workers["execute"].events("job_compiled")
        # Without a compile worker the other one does all of it.
        workers["compile"].kill()
        alone = server.post("/v1/jobs", real_job("right_relu", reuse=False, seed=5), expect=202)["id"]
        assert server.wait(alone)["status"] == "ok"
    finally:
        for one in reversed(running):
            one.close()


def test_compile_workers_build_for_gpus_that_they_have_not(tmp_path):
    runtime_lib = PROGRAM.parent / "runtime" / "lib" / "libmusacoder_torch_cuda.so"
    if not runtime_lib.exists():
        pytest.skip("this build has no torch shim for CUDA")
    running = []
    try:
        server = Server("--queue", "memory", "--no-lanes", env=machine(tmp_path, "server"))
        running.append(server)
        worker = Process("worker", "--queue", f"http://127.0.0.1:{server.port}", "--role", "compile", "--gpu-arch", "90",
                         env=machine(tmp_path, "compile"))
        running.append(worker)
        server.post("/v1/jobs", real_job("right_relu", reuse=False), expect=202)
        end = time.monotonic() + 240
        while not worker.events("job_compiled") and time.monotonic() < end:
            time.sleep(0.2)
        assert worker.events("job_compiled")
        objects = list((tmp_path / "compile" / "cache").rglob("*.so"))
        for_gpu = [path for path in objects if b"libmusacoder_torch_cuda.so" in path.read_bytes()]
        for_vgpu = [path for path in objects if b"libmusacoder_cudart.so" in path.read_bytes()]
        assert len(for_gpu) == 1 and len(for_vgpu) == 1, objects
        assert b"sm_90" in for_gpu[0].read_bytes() or b".nv_fatbin" in for_gpu[0].read_bytes()
    finally:
        for one in reversed(running):
            one.close()


def test_wrong_roles_and_stores_are_told(tmp_path):
    import subprocess

    def refused(*arguments):
        done = subprocess.run([PROGRAM, "worker", *arguments], capture_output=True, text=True, timeout=60)
        assert done.returncode in (2, 105), done
        return done.stderr

    assert "nats://" in refused("--queue", "sqlite:/nowhere/q.db", "--artifacts", "ftp://x")
    assert "PREFIX" in refused("--queue", "nats://user:secret@h/a.b")
    assert "secret" not in refused("--queue", "nats://user:secret@h/a.b")
    refused("--queue", f"sqlite:{tmp_path}/q.db", "--role", "cook")
    assert "--role compile" in refused("--queue", f"sqlite:{tmp_path}/q.db", "--gpu-arch", "90")
    refused("--queue", f"sqlite:{tmp_path}/q.db", "--role", "compile", "--gpu-arch", "1")
