"""What happens to the machine is no fault of a candidate's, and what a killed program leaves is removed by the next."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import pytest
from service_support import PROGRAM, ROOT, Server, real_job

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")


def test_a_killed_batch_leaves_nothing_for_long(tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    environment = {**os.environ, "MUSACODER_TMPDIR": str(scratch)}
    job = real_job()
    rows = tmp_path / "rows.jsonl"
    rows.write_text(
        "".join(
            json.dumps({"reference": job["reference"], "candidate": job["candidate"], "n": i}) + "\n"
            for i in range(50)
        )
    )
    batch = [PROGRAM, "verify", "--batch", rows, "--out", tmp_path / "out.jsonl", "--lanes", "1", "--quiet"]
    child = subprocess.Popen(batch, env=environment)
    out = tmp_path / "out.jsonl"
    end = time.monotonic() + 120
    while (not out.exists() or not out.read_text()) and time.monotonic() < end:
        time.sleep(0.05)
    child.kill()
    child.wait()
    left = list(scratch.iterdir())
    assert left, "it was killed at work"
    other = scratch / "mc-lanes-someone"
    other.mkdir()
    (other / "owner").write_text("another-host/0/0/1/1/0")
    subprocess.run(
        [PROGRAM, "verify", ROOT / "tasks" / "activation" / "1_relu.py", "-", "--json"],
        input="nothing to see", text=True, env=environment, stdout=subprocess.DEVNULL, timeout=120, check=False,
    )  # fmt: skip
    assert list(scratch.iterdir()) == [other], "all of it, and nobody else's"


@pytest.fixture
def beside_the_program():
    """Candidates see nothing below /tmp."""
    with tempfile.TemporaryDirectory(prefix="test-", dir=PROGRAM.parent) as folder:
        yield pathlib.Path(folder)


def test_a_package_that_vanished_under_the_server_is_infra(beside_the_program):
    python = beside_the_program / "venv" / "bin" / "python"
    subprocess.run(
        [ROOT / ".venv" / "bin" / "python", "-m", "venv", "--without-pip", python.parents[1]], check=True
    )
    (site,) = (python.parents[1] / "lib").glob("python3*/site-packages")
    (real,) = (ROOT / ".venv" / "lib").glob("python3*/site-packages")
    (site / "all_else.pth").write_text(f"{real.resolve()}\n")
    (site / "a_package").mkdir()
    (site / "a_package" / "__init__.py").write_text("answer = 42\n")
    job = real_job("right_relu", reuse=False)
    job["candidate"] = job["candidate"].replace("import torch\n", "import torch\nimport a_package\n", 1)
    assert "import a_package" in job["candidate"]
    missing = {**job, "candidate": job["candidate"].replace("a_package", "no_such_package")}
    server = Server(
        "--queue",
        "memory",
        "--lanes",
        1,
        "--max-faults",
        1,
        env={"MUSACODER_PYTHON": str(python), "MUSACODER_NVCC": nvcc()},
    )
    try:
        first = server.wait(server.post("/v1/jobs", job, expect=202)["id"])
        assert first["status"] == "ok", first["verdict"]["cause"]
        own = server.wait(server.post("/v1/jobs", missing, expect=202)["id"])
        assert own["status"] == "runtime_error:exception" and own["reward"] == -1, own
        shutil.rmtree(site / "a_package")
        view = server.wait(server.post("/v1/jobs", {**job, "seed": 3}, expect=202)["id"])
        assert view["status"] == "infra:installation" and view["reward"] is None, view
        assert "a_package is gone" in view["verdict"]["cause"]
    finally:
        server.close()


def nvcc():
    from toolchain import find_nvcc

    return str(find_nvcc())


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_is_infra(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if (
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256m", "mc-test", disk], check=False).returncode
        != 0
    ):
        pytest.skip("mounting is not possible here")
    try:
        job = real_job("right_relu", reuse=False)
        # Fills what is left of the disk before it goes on, as somebody else might.
        server = Server(
            "--queue", "memory", "--lanes", 1, "--max-faults", 1, env={"MUSACODER_TMPDIR": str(disk)}
        )
        try:
            assert server.wait(server.post("/v1/jobs", job, expect=202)["id"])["status"] == "ok"
            with open(disk / "filler", "wb", buffering=0) as file:
                try:
                    while True:
                        file.write(b"\0" * 65536)
                except OSError:
                    pass
            view = server.wait(server.post("/v1/jobs", {**job, "seed": 3}, expect=202)["id"])
            assert view["status"].startswith("infra:") and view["reward"] is None, view
            pathlib.Path(disk / "filler").unlink()
            assert (
                server.wait(server.post("/v1/jobs", {**job, "seed": 4}, expect=202)["id"])["status"] == "ok"
            )
        finally:
            server.close()
    finally:
        subprocess.run(["umount", "-l", disk], check=False)
