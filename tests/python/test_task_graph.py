"""The operator graph of tasks (runtime/python/musagraph): copies in another style have the same hash, neighbours another."""

import itertools
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "runtime" / "python"))

canonical = pytest.importorskip("musagraph.canonical")
from musagraph.trace import trace_task  # noqa: E402


def task(forward, inputs="torch.randn(8, 16), torch.randn(8, 16)", init="", args="x, y", head=""):
    lines = "\n".join("        " + line for line in forward.strip().splitlines())
    made = "\n".join("        " + line for line in init.strip().splitlines()) or "        pass"
    return f"""import torch
import torch.nn as nn
import torch.nn.functional as F
{head}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
{made}
    def forward(self, {args}):
{lines}
def get_inputs():
    return [{inputs}]
def get_init_inputs():
    return []
"""


def digest(code):
    return canonical.canonical_hash(trace_task(code))


X = "torch.randn(8, 16)"
CONV = "torch.randn(2, 3, 12, 12)"
# Each list: one computation in several styles.
SAME = {
    "names and sizes": [task("return torch.relu(x + y)"), task("total = first + second\nreturn F.relu(total)", "torch.randn(3, 1000), torch.randn(3, 1000)", args="first, second")],
    "order of operands": [task("return x * y + x"), task("return x + y * x"), task("z = torch.mul(y, x)\nreturn torch.add(x, z)"), task("x = x.clone()\nreturn y * x + x")],
    "order of inputs": [task("return torch.tanh(x) * y"), task("return x * torch.tanh(y)")],
    "in place": [task("return torch.relu(x + 1)", X, args="x"), task("z = x.clone()\nz += 1\nz.relu_()\nreturn z", X, args="x"), task("return (x + 1).clamp(min=0)", X, args="x")],
    "linear": [task("return self.fc(x)", X, "self.fc = nn.Linear(16, 4)", "x"),
               task("return F.linear(x, self.w, self.b)", X, "self.w = nn.Parameter(torch.randn(4, 16))\nself.b = nn.Parameter(torch.randn(4))", "x"),
               task("return x @ self.w.t() + self.b", X, "self.w = nn.Parameter(torch.randn(4, 16))\nself.b = nn.Parameter(torch.randn(4))", "x"),
               task("return torch.addmm(self.b, x, self.w.transpose(0, 1))", X, "self.w = nn.Parameter(torch.randn(4, 16))\nself.b = nn.Parameter(torch.randn(4))", "x")],
    "linear on 3D": [task("return self.fc(x)", "torch.randn(2, 3, 16)", "self.fc = nn.Linear(16, 4)", "x"), task("return self.fc(x)", X, "self.fc = nn.Linear(16, 9)", "x")],
    "softmax": [task("return torch.softmax(x, 1)", X, args="x"), task("return F.softmax(x, dim=-1)", X, args="x"), task("return self.s(x)", X, "self.s = nn.Softmax(dim=1)", "x"),
                task("e = torch.exp(x - x.amax(dim=1, keepdim=True))\nreturn e / e.sum(dim=1, keepdim=True)", X, args="x"),
                task("e = (x - x.max(dim=1, keepdim=True)[0]).exp()\nreturn e / torch.sum(e, -1, keepdim=True)", X, args="x")],
    "silu": [task("return F.silu(x)", X, args="x"), task("return x * torch.sigmoid(x)", X, args="x"), task("return x.sigmoid() * x", X, args="x"),
             task("return x / (1 + torch.exp(-x))", X, args="x")],
    "gelu by hand": [task("return 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x ** 3)))", X, args="x"),
                     task("inner = (x.pow(3) * 0.044715 + x) * 0.79788456\nreturn (torch.tanh(inner) + 1.0) * x * 0.5", X, args="x")],
    "mean": [task("return x.mean(1)", X, args="x"), task("return torch.mean(x, dim=-1)", X, args="x"), task("return x.sum(dim=1) / x.size(1)", X, args="x")],
    "mean of squares": [task("return (x ** 2).mean()", X, args="x"), task("return torch.mean(x * x)", X, args="x"), task("return x.square().mean(dim=(0, 1))", X, args="x")],
    "normalised": [task("return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)", X, args="x"), task("return x / torch.sqrt(torch.mean(x.pow(2), dim=1, keepdim=True) + 1e-5)", X, args="x")],
    "scaled": [task("return (x * 2) * 3", X, args="x"), task("return 6.0 * x", X, args="x"), task("return x / (1 / 6)", X, args="x")],
    "difference": [task("return x - y"), task("return x + (-y)"), task("return torch.sub(x, y)"), task("return -(y - x)")],
    "clamped": [task("return torch.clamp(x, -1, 1)", X, args="x"), task("return F.hardtanh(x)", X, args="x"), task("return self.h(x)", X, "self.h = nn.Hardtanh()", "x")],
    "convolution": [task("return F.relu(self.c(x))", CONV, "self.c = nn.Conv2d(3, 8, 3)", "x"), task("return torch.relu(F.conv2d(x, self.w, self.b))", CONV, "self.w = nn.Parameter(torch.randn(8, 3, 3, 3))\nself.b = nn.Parameter(torch.randn(8))", "x"),
                    task("return torch.relu(F.conv2d(x, self.w) + self.b.view(1, -1, 1, 1))", CONV, "self.w = nn.Parameter(torch.randn(8, 3, 3, 3))\nself.b = nn.Parameter(torch.randn(8))", "x")],
    "transposed view": [task("return x.t() @ y"), task("return torch.matmul(x.transpose(0, 1), y)"), task("return torch.mm(x.permute(1, 0).contiguous(), y)")],
    "sequential": [task("return self.n(x)", X, "self.n = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2))", "x"),
                   task("return self.b(torch.relu(self.a(x)))", X, "self.a = nn.Linear(16, 16)\nself.b = nn.Linear(16, 2)", "x")],
    "what no output needs": [task("return x + y"), task("z = torch.exp(x)\nreturn x + y")],
    "computed twice": [task("z = torch.exp(x)\nreturn z * z + y"), task("return torch.exp(x) * torch.exp(x) + y")],
    "layer norm": [task("return self.n(x)", X, "self.n = nn.LayerNorm(16)", "x"), task("return F.layer_norm(x, (16,), self.w, self.b)", X, "self.w = nn.Parameter(torch.ones(16))\nself.b = nn.Parameter(torch.zeros(16))", "x")],
    "lstm": [task("return self.r(x)[0]", "torch.randn(4, 5, 6)", "self.r = nn.LSTM(6, 7, batch_first=True)", "x"), task("out, _ = self.rnn(x)\nreturn out", "torch.randn(2, 9, 3)", "self.rnn = nn.LSTM(3, 4, batch_first=True)", "x")],
}
# All of these are different from each other and from everything above.
DIFFERENT = {
    "operand twice": task("return torch.relu(x + x)", X, args="x"),
    "three operands": task("return torch.relu(x + y + z)", X + ", " + X + ", " + X, args="x, y, z"),
    "other activation": task("return torch.tanh(x + y)"),
    "activation first": task("return torch.relu(x) + y"),
    "other axis": task("return torch.softmax(x, 0)", X, args="x"),
    "log": task("return torch.log_softmax(x, 1)", X, args="x"),
    "softmax without shift": task("e = torch.exp(x)\nreturn e / e.sum(1, keepdim=True)", X, args="x"),
    "sum": task("return x.sum(1)", X, args="x"),
    "mean of the other axis": task("return x.mean(0)", X, args="x"),
    "mean of all": task("return x.mean()", X, args="x"),
    "no bias": task("return self.fc(x)", X, "self.fc = nn.Linear(16, 4, bias=False)", "x"),
    "linear, relu": task("return torch.relu(self.fc(x))", X, "self.fc = nn.Linear(16, 4)", "x"),
    "product of inputs": task("return x @ y.t()"),
    "product the other way": task("return y.t() @ x + 1"),
    "other constant": task("return x * 5", X, args="x"),
    "other eps": task("return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-3)", X, args="x"),
    "other bounds": task("return torch.clamp(x, -2, 1)", X, args="x"),
    "strided convolution": task("return F.relu(self.c(x))", CONV, "self.c = nn.Conv2d(3, 8, 3, stride=2)", "x"),
    "padded convolution": task("return F.relu(self.c(x))", CONV, "self.c = nn.Conv2d(3, 8, 3, padding=1)", "x"),
    "dilated convolution": task("return F.relu(self.c(x))", CONV, "self.c = nn.Conv2d(3, 8, 3, dilation=2)", "x"),
    "grouped convolution": task("return F.relu(self.c(x))", CONV, "self.c = nn.Conv2d(3, 9, 3, groups=3)", "x"),
    "transposed convolution": task("return F.relu(self.c(x))", CONV, "self.c = nn.ConvTranspose2d(3, 8, 3)", "x"),
    "another half": task("return torch.relu(x + y)", "torch.randn(8, 16, dtype=torch.float16), torch.randn(8, 16, dtype=torch.float16)"),
    "cast between": task("return torch.relu((x + y).half().float())"),
    "both results": task("return x + y, x * y"),
    "both results, swapped": task("return x * y, x + y"),
    "running sum": task("return torch.cumsum(x, 1)", X, args="x"),
    "max and its place": task("return torch.max(x, 1)", X, args="x"),
    "place alone": task("return torch.argmax(x, 1)", X, args="x"),
    "gelu": task("return F.gelu(x)", X, args="x"),
    "gelu, tanh": task("return F.gelu(x, approximate='tanh')", X, args="x"),
    "leaky": task("return F.leaky_relu(x, 0.1)", X, args="x"),
    "leakier": task("return F.leaky_relu(x, 0.2)", X, args="x"),
    "pooled": task("return F.max_pool2d(x, 2)", CONV, args="x"),
    "pooled by three": task("return F.max_pool2d(x, 3)", CONV, args="x"),
    "averaged": task("return F.avg_pool2d(x, 2)", CONV, args="x"),
    "gru": task("return self.r(x)[0]", "torch.randn(4, 5, 6)", "self.r = nn.GRU(6, 7, batch_first=True)", "x"),
    "last state": task("return self.r(x)[1][0]", "torch.randn(4, 5, 6)", "self.r = nn.LSTM(6, 7, batch_first=True)", "x"),
    "flattened": task("return torch.softmax(x.reshape(-1), 0)", X, args="x"),
    "difference the other way, cubed": task("return (y - x) ** 3 * y"),
    "longer chain": task("return self.n(x)", X, "self.n = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2), nn.ReLU())", "x"),
}


@pytest.mark.parametrize("name", SAME)
def test_styles_are_one(name):
    hashes = [digest(code) for code in SAME[name]]
    assert len(set(hashes)) == 1, hashes


def test_neighbours_are_not():
    hashes = {name: digest(codes[0]) for name, codes in SAME.items()} | {name: digest(code) for name, code in DIFFERENT.items()}
    hashes.pop("linear on 3D")      # is "linear"
    equal = [(a, b) for a, b in itertools.combinations(hashes, 2) if hashes[a] == hashes[b]]
    assert not equal


def test_shapes_of_every_node():
    graph = trace_task(task("return torch.relu(self.fc(x)).t().sum(0)", "torch.randn(batch, 16)", "self.fc = nn.Linear(16, 4)", "x", "batch = 9"), symbols=True)
    by_op = {node["op"]: (i, node) for i, node in enumerate(graph["nodes"])}
    assert by_op["addmm"][1]["shape"] == [9, 4] and by_op["addmm"][1]["stride"] == [4, 1]
    turned = [n for n in graph["nodes"] if n["op"] == "t"][-1]
    assert turned["shape"] == [4, 9] and turned["stride"] == [1, 4] and not turned["contiguous"]
    assert by_op["sum"][1]["shape"] == [9] and by_op["sum"][1]["dtype"] == "float32"
    assert graph["symbolic"][by_op["sum"][0]] == ["batch"]
    assert graph["symbolic"][0] == ["batch", 16], "the weight fixes the second size, also where it is read first"
    assert graph["ops"] == {"aten::t": 2, "aten::addmm": 1, "aten::relu": 1, "aten::sum": 1}


def test_values_are_had_where_they_are_needed():
    graph = trace_task(task("return x[x > 0].sum()", "torch.randn(64, 16)", args="x"))
    assert "scaled" in graph and graph["ops"]["aten::sum"] == 1
    with pytest.raises(Exception, match="."):
        trace_task(task("raise ValueError('no')", X, args="x"))
