"""`musacoder store export --format parquet`, with a Python that has pyarrow and with one that has not.

MUSACODER_PYARROW_PYTHON names a Python with pyarrow where the project's own has none.
"""

import json
import os
import subprocess
import sys

import pytest
from service_support import PROGRAM, TRIVIAL, Server

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
PYTHON = os.environ.get("MUSACODER_PYARROW_PYTHON", sys.executable)
READ = "import json, sys, pyarrow.parquet as q; t = q.read_table(sys.argv[1]); print(json.dumps(t.to_pylist(), default=str))"


def has_pyarrow(python):
    return (
        subprocess.run([python, "-c", "import pyarrow.parquet"], capture_output=True, check=False).returncode
        == 0
    )


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "v.db"
    server = Server("--queue", "memory", "--lanes", 1, "--store", path)
    try:
        for i in range(3):
            job = {
                "reference": "class Model: pass",
                "candidate": f"{TRIVIAL} {i}",
                "task": f"level1/{i}",
                "labels": {"i": i},
            }
            server.post("/v1/verify", job)
        assert server.terminate() == 0
    finally:
        server.close()
    return path


def export(store, out, python):
    return subprocess.run(
        [PROGRAM, "store", "export", store, "--format", "parquet", *(["-o", out] if out else [])],
        capture_output=True, text=True, check=False, env={**os.environ, "MUSACODER_PYTHON": python},
    )  # fmt: skip


@pytest.mark.skipif(not has_pyarrow(PYTHON), reason="pyarrow is not installed")
def test_every_verdict_is_a_typed_row(store, tmp_path):
    out = tmp_path / "v.parquet"
    done = export(store, out, PYTHON)
    assert done.returncode == 0, done.stderr
    rows = json.loads(
        subprocess.run([PYTHON, "-c", READ, out], capture_output=True, text=True, check=True).stdout
    )
    assert sorted(row["task"] for row in rows) == [f"level1/{i}" for i in range(3)]
    assert all(
        row["status"] == "compile_error:extract" and row["reward"] == -1 and row["verified"] is False
        for row in rows
    )
    assert all(json.loads(row["verdict"])["status"] == row["status"] for row in rows)
    assert [one.name for one in tmp_path.iterdir()] == ["v.parquet"], "nothing else is left"


def test_what_is_missing_is_told(store, tmp_path):
    assert "-o" in export(store, None, PYTHON).stderr
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    done = export(store, tmp_path / "v.parquet", str(bare / "bin" / "python"))
    assert done.returncode == 2 and "pip install pyarrow" in done.stderr, done
    assert not list(tmp_path.glob("v.parquet*"))
