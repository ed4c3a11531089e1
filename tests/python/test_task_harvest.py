"""Modules harvested from users' files, and unit tests for tasks (runtime/python/musagraph)."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "runtime" / "python"))

pytest.importorskip("torch")
from musagraph.cases import propose  # noqa: E402
from musagraph.harvest import harvest  # noqa: E402
from musagraph.trace import trace_task  # noqa: E402
from musaref.session import Task  # noqa: E402

FILE = '''
import math, random
import requests
import torch
from torch import nn
import torch.nn.functional as F

SLOPE = 0.1

def squash(x):
    return F.leaky_relu(x, SLOPE) / math.sqrt(2)

class Gate(nn.Module):
    def __init__(self, dim: int, bias: bool = True):
        super(Gate, self).__init__()
        self.fc = nn.Linear(dim, 2 * dim, bias=bias)
    def forward(self, x):
        a, b = self.fc(x).chunk(2, dim=-1)
        return squash(a) * torch.sigmoid(b)

class Stem(Gate):
    def __init__(self, in_channels):
        nn.Module.__init__(self)
        self.conv = nn.Conv2d(in_channels, 8, 3)
    def forward(self, image):
        return self.conv(image).relu()

class Words(nn.Module):
    def __init__(self, vocab_size, dim):
        super().__init__()
        self.table = nn.Embedding(vocab_size, dim)
    def forward(self, ids):
        return self.table(ids).mean(1)

class Noisy(nn.Module):
    def forward(self, x):
        return x + torch.randn_like(x)

class Branches(nn.Module):
    def forward(self, x):
        return x.exp() if x.abs().max() > 8 else x.tanh()

class Fetches(nn.Module):
    def forward(self, x):
        return x * float(requests.get("http://x").text)

class Reads(nn.Module):
    def forward(self, x):
        return x + torch.load("weights.pt")

class Typed(nn.Module):
    def __init__(self, config: dict):
        super().__init__()
    def forward(self, x):
        return x

class Logs(nn.Module):
    def forward(self, x):
        return torch.log(x)

class NotOne:
    pass
'''


def test_harvested_tasks_are_tasks():
    found = harvest(FILE, "model.py")
    tasks = {t["name"]: t["code"] for t in found["tasks"]}
    assert set(tasks) == {"Gate", "Stem", "Words"}
    assert "requests" not in tasks["Gate"] and "SLOPE = 0.1" in tasks["Gate"] and "class Model(nn.Module)" in tasks["Gate"]
    ops = {name: set(trace_task(code)["ops"]) for name, code in tasks.items()}
    assert {"aten::addmm", "aten::leaky_relu", "aten::sigmoid"} <= ops["Gate"] and "aten::convolution" in ops["Stem"] and "aten::embedding" in ops["Words"]


def test_the_reason_is_told():
    reasons = {d["name"]: d["reason"] for d in harvest(FILE, "model.py")["dropped"]}
    assert set(reasons) == {"Noisy", "Branches", "Fetches", "Reads", "Typed", "Logs"}
    assert "random" in reasons["Noisy"] and "control flow" in reasons["Branches"] and "requests" in reasons["Fetches"]
    assert "load" in reasons["Reads"] and "config" in reasons["Typed"] and "finite" in reasons["Logs"]
    assert harvest("class (", "x.py")["dropped"][0]["reason"].startswith("is not Python")


TASK = """import torch
columns = 64
rows = 32
heads = 4
class Model(torch.nn.Module):
    def forward(self, x):
        return x.view(rows, heads, columns // heads).sum(-1)
def get_inputs():
    return [torch.rand(rows, columns)]
def get_init_inputs():
    return []
"""


def cases_in(code):
    space = {}
    exec(code, space)
    return space["MUSACODER_CASES"]


def test_cases_that_run_are_kept():
    made = propose(TASK, 3)
    reasons = {d["name"]: d["reason"] for d in made["dropped"]}
    assert "unaligned rows" in made["kept"] and "single rows" in made["kept"]
    assert reasons["unaligned columns"] == "raises TaskError", "the view needs a multiple of the heads"
    cases = cases_in(made["code"])
    assert [c["name"] for c in cases] == made["kept"] and len(cases) == 8
    assert made == propose(TASK, 3)
    assert [c["name"] for c in Task(made["code"]).cases] == made["kept"]
    assert propose(made["code"], 4) == {"code": made["code"], "kept": [], "dropped": []}, "who wrote cases keeps them"
    assert propose("import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x\ndef get_inputs():\n    return [torch.arange(1)]\n", 1)["kept"] == []


SOFTMAX = TASK.replace("x.view(rows, heads, columns // heads).sum(-1)", "torch.softmax(x, -1)").replace("heads = 4\n", "")


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_cases_are_of_many_kinds(seed):
    cases = cases_in(propose(SOFTMAX, seed)["code"])
    assert len(cases) == 8
    kinds = [next(k for k in ("values", "layout", "dtype", "set") if k in c) for c in cases]
    assert {kind: kinds.count(kind) for kind in kinds} == {"values": 2, "set": 4, "layout": 1, "dtype": 1}
    assert {c["name"].split()[0] for c in cases if "set" in c} == {"unaligned", "single", "imbalanced", "empty"}
    assert cases[0] == {"name": "all zeros", "values": "zeros"}
    told = Task(SOFTMAX + f"MUSACODER_CASES = {cases!r}\n").cases
    assert [c["counts"] for c in told] == ["layout" not in c and "dtype" not in c and 0 not in c.get("set", {}).values() for c in cases]


def test_the_reason_why_a_case_is_dropped():
    def dropped(forward, seed=5, top=""):
        code = SOFTMAX.replace("torch.softmax(x, -1)", forward).replace("class Model", top + "class Model")
        return {d["name"]: d["reason"] for d in propose(code, seed)["dropped"]}
    assert dropped("torch.log(x)")["all zeros"] == "gives values that are not finite"
    assert dropped("x * int.from_bytes(os.urandom(2), 'big')", top="import os\n")["single rows"] == "is not deterministic"
    # A view of all elements in order exists for every second element of a larger tensor, not for a transposed one.
    found = [dropped("torch.relu(x.view(-1))", seed).get("transposed") for seed in range(6)]
    assert "raises TaskError" in found and None in found
    ones = [dropped("(x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)", seed) for seed in range(8)]
    assert all(found["all zeros"] == "gives values that are not finite" for found in ones)
