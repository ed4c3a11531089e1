"""What people and machines hand in by mistake or malice, through the real program: each ends in a state of its own name."""

import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MUSACODER = ROOT / "build" / "musacoder"
TASK = ROOT / "tasks" / "activation" / "1_relu.py"
RIGHT = ROOT / "corpus" / "quickstart" / "right_relu" / "candidate.py"
MODEL = """import torch
import torch.nn as nn
class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_init_inputs():
    return []
"""

pytestmark = pytest.mark.skipif(not MUSACODER.exists(), reason="the program is not built")


def verify(task, candidate, **environment):
    done = subprocess.run([MUSACODER, "verify", task, candidate, "--json"], capture_output=True, text=True, timeout=200,
                          env={**os.environ, **environment}, check=False)
    return done.returncode, json.loads(done.stdout) if done.stdout.startswith("{") else None, done.stderr


@pytest.mark.parametrize(("content", "status"), [
    (b"", "compile_error:extract"),
    (os.urandom(200_000), "compile_error:extract"),
    (b"a" * 100_000_000, "compile_error:extract"),
    (b"I cannot help with that.\n", "compile_error:extract"),
    (b"def (:\n", "compile_error:syntax"),
    (b"import torch\nclass ModelNew: pass\n" + b"(" * 5000, "compile_error:syntax"),
], ids=["empty", "binary", "100MB", "prose", "not_python", "deep"])
def test_answers(tmp_path, content, status):
    file = tmp_path / "answer.md"
    file.write_bytes(content)
    code, verdict, _ = verify(TASK, file)
    assert code == 1
    assert verdict["status"] == status, verdict["cause"]


@pytest.mark.parametrize(("text", "status"), [
    ("import urllib.request\ndef get_inputs():\n    urllib.request.urlopen('http://192.0.2.1/x', timeout=5)\n", "invalid_task:unavailable"),
    ("import torch.hub\ndef get_inputs():\n    return [torch.hub.load_state_dict_from_url('https://192.0.2.1/w.pth')]\n", "invalid_task:unavailable"),
    ("import no_such_package\ndef get_inputs():\n    return [torch.randn(3)]\n", "invalid_task:missing_module"),
    ("def get_inputs():\n    raise ValueError('no')\n", "invalid_task:exception"),
    ("def get_inputs():\n    raise SystemExit(0)\n", "invalid_task:exception"),
    ("def get_inputs(:\n", "invalid_task:syntax"),
], ids=["download", "hub", "package", "raises", "exits", "syntax"])
def test_tasks(tmp_path, text, status):
    file = tmp_path / "task.py"
    file.write_text(MODEL + text, encoding="utf-8")
    code, verdict, _ = verify(file, RIGHT)
    assert code == 4
    assert verdict["status"] == status, verdict["cause"]


def test_files_that_are_not_there_or_no_files(tmp_path):
    for task, candidate in ((tmp_path / "none.py", RIGHT), (TASK, tmp_path / "none.py"), (TASK, tmp_path)):
        code, verdict, message = verify(task, candidate)
        assert code == 2 and verdict is None
        assert str(tmp_path) in message


def test_an_unusable_cache_folder_blames_nobody(tmp_path):
    """The folder is named and no verdict is given."""
    blocked = tmp_path / "cache"
    blocked.write_text("a file where the folder should be", encoding="utf-8")
    code, verdict, message = verify(TASK, RIGHT, MUSACODER_CACHE=str(blocked))
    assert code in (2, 3) and verdict is None
    assert str(blocked) in message


def test_output_that_nobody_reads_or_that_has_no_room():
    command = [MUSACODER, "prompt", TASK, "--json"]
    assert len(subprocess.run(command, capture_output=True, check=True).stdout) > 4096, "too short to leave the program's buffer"
    read_end, write_end = os.pipe()
    os.close(read_end)
    gone = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write_end)
    assert (gone.returncode, gone.stderr) == (3, "")
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 3 and "No space left" in done.stderr
