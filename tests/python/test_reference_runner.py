"""The reference runner's parts: scaling, trials, comparison, audit. Golden values are torch's own or computed by hand."""

import json
import math
import os
import pathlib
import sys

import pytest

torch = pytest.importorskip("torch")

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "runtime" / "python"))
sys.path.insert(0, str(pathlib.Path(__file__).parent))

from musaref.audit import audit  # noqa: E402
from musaref.cases import Variant  # noqa: E402
from musaref.compare import Expected, compare  # noqa: E402
from musaref.distributions import ORDER, sample  # noqa: E402
from musaref.errors import TaskError  # noqa: E402
from musaref.scaling import snap  # noqa: E402
from musaref.session import Options, Task  # noqa: E402
from musaref.source import TaskSource  # noqa: E402
from musaref.tree import FileWriter, OnCpu, decode, encode  # noqa: E402
from reference_client import Runner  # noqa: E402

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


def task(body, inputs="[torch.rand(4, 8)]", init="[]", constants="", variant=None, **options):
    """A task whose Model has `body` (methods), with constants before the two functions."""
    code = f"{HEAD}class Model(nn.Module):\n"
    code += "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    code += f"{constants}\ndef get_inputs():\n    return {inputs}\ndef get_init_inputs():\n    return {init}\n"
    return Task(code, "t", Options(inputs=variant, **options))


RELU = "def forward(self, x):\n    return torch.relu(x)"


def judge(t, variant, trials=7):
    """Statuses of a variant (inputs → outputs) over the trials that are not skipped."""
    out = []
    for index in range(trials):
        trial = t.trial(index, 100 + index)
        if not trial.skipped:
            out.append(t.compare(index, variant(*trial.inputs))["status"])
    return out


# ---- scaling ----

def test_snap_keeps_what_is_special():
    assert snap(4096, 200) == 128          # multiples of large powers of two stay such
    assert snap(4096, 4) == 4
    assert snap(100, 200) == 100           # never grows
    assert snap(8205, 300) % 32 == 8205 % 32   # ragged sizes stay ragged
    assert snap(4095, 255) % 32 == 31
    assert snap(768, 100, divider=12) == 192   # heads keep dividing
    assert snap(480, 60, divider=3) == 96
    for original in (1, 2, 3, 7, 31, 97, 1000, 65535, 393216):
        for target in (1, 2, 5, 16, 33, 500):
            assert 1 <= snap(original, target) <= original


def test_finds_the_constants_that_set_sizes():
    source = TaskSource(HEAD + """
class Model(nn.Module):
    def __init__(self, hidden, kernel_size):
        super().__init__()
        self.table = [1000, 2000]
    def forward(self, x):
        return x
unused = 4096
batch_size = 1024 * 2
height = width = 128
hidden, kernel_size = 512, 3
layer_sizes = [256] * 4
shape = (batch_size, 3, height, width)
def get_inputs():
    return [torch.rand(*shape), torch.randint(0, 1000, (batch_size, 77)), layer_sizes]
def get_init_inputs():
    return [hidden, kernel_size]
""")
    found = {s.name: s.value for s in source.sites}
    assert found["batch_size"] == 2048 and found["height"] == 128 and found["hidden"] == 512
    assert found["layer_sizes[0]"] == 256 and found["shape[1]"] == 3 and found["get_inputs:77"] == 77
    assert "unused" not in found and not any("1000" in name for name in found)
    changed = source.execute({s.key: 16 for s in source.sites if s.name in ("batch_size", "get_inputs:77")})
    assert changed.shape == (16, 3, 128, 128) and changed.get_inputs()[1].shape == (16, 16)


def test_scaling_is_deterministic_and_reported():
    make = lambda: task(RELU, "[torch.rand(batch_size, dim)]", constants="batch_size = 4096\ndim = 393216")  # noqa: E731
    first, second = make(), make()
    assert first.scaling.changes == second.scaling.changes
    assert {c["name"] for c in first.scaling.changes} == {"batch_size", "dim"}
    assert all(c["to"] < c["from"] and c["how"] == "auto" for c in first.scaling.changes)
    assert first.scaling.work <= 4e7 < first.scaling.work_full
    assert first.input_example[0].numel() * 4 <= 1 << 20


def test_scaling_keeps_structure_valid():
    attention = """
def __init__(self, n_embd, n_head):
    super().__init__()
    self.attention = nn.MultiheadAttention(n_embd, n_head, batch_first=True)
def forward(self, x):
    return self.attention(x, x, x)[0]
"""
    t = task(attention, "[torch.rand(batch_size, seq_len, n_embd)]", "[n_embd, n_head]",
             "batch_size = 256\nseq_len = 512\nn_embd = 768\nn_head = 12")
    x = t.input_example[0]
    assert x.shape[2] % 12 == 0 and not t.scaling.over_budget
    assert "n_head" not in {c["name"] for c in t.scaling.changes}


def test_sizes_that_must_stay_equal_stay_equal():
    t = task("def forward(self, x, y):\n    return torch.mean(torch.clamp(1 - x * y, min=0))",
             "[torch.rand(batch_size, *shape), torch.randint(0, 2, (batch_size,)).float() * 2 - 1]",
             constants="batch_size = 32768\nshape = (32768,)")
    assert t.input_example[0].shape[1] == t.input_example[1].shape[0] < 32768


def test_full_size_and_constants_by_hand():
    constants = "batch_size = 64\ndim = 1000"
    assert task(RELU, "[torch.rand(batch_size, dim)]", constants=constants, scale="full").input_example[0].shape == (64, 1000)
    pinned = task(RELU, "[torch.rand(batch_size, dim)]", constants=constants, set=(("batch_size", 5),))
    assert pinned.input_example[0].shape == (5, 1000)
    assert pinned.scaling.changes[0] == {"name": "batch_size", "line": 7, "from": 64, "to": 5, "how": "set"}
    with pytest.raises(TaskError, match="it has: batch_size, dim") as caught:
        task(RELU, "[torch.rand(batch_size, dim)]", constants=constants, set=(("rows", 5),))
    assert caught.value.status == "invalid_task:set"


# ---- signatures ----

@pytest.mark.parametrize("body, inputs, init", [
    ("def forward(self, a, s, n, i):\n    return a[i] * s if n is None else a",
     "[torch.rand(9, 4), 2.5, None, torch.randint(0, 9, (5,))]", "[]"),
    ("def forward(self, x):\n    return {'a': x + 1, 'b': (x.sum(), [x > 0.5])}", "[torch.rand(3, 4)]", "[]"),
    ("def __init__(self, size, bias=False):\n    super().__init__()\n    self.l = nn.Linear(size, 3, bias=bias)\n"
     "def forward(self, x):\n    return self.l(x)", "[torch.rand(2, 6)]", "{'size': 6, 'bias': True}"),
    ("def __init__(self, size, bias=False):\n    super().__init__()\n    self.l = nn.Linear(size, 3, bias=bias)\n"
     "def forward(self, x):\n    return self.l(x)", "[torch.rand(2, 6)]", "[[6], {'bias': True}]"),
    ("def forward(self, x):\n    return torch.fft.fft(x)", "[torch.rand(2, 6)]", "[]"),
    ("def forward(self, x):\n    return x.half() * 2", "[torch.rand(2, 6)]", "[]"),
    ("def forward(self, x):\n    return x * 2", "[torch.rand(2, 6).to('cuda')]", "[]"),
    ("def forward(self, x):\n    return x + torch.zeros(6, device=x.device, dtype=torch.float32)", "torch.rand(2, 6)", "[]"),
])
def test_any_signature(body, inputs, init):
    t = task(body, inputs, init)
    trial = t.trial(0, 1)
    result = compare(trial.expected, trial.expected.eager)
    assert result["pass"] and result["allclose"], result


def test_state_is_the_same_in_every_call():
    t = task("""
def __init__(self):
    super().__init__()
    self.norm = nn.BatchNorm1d(8, momentum=0.5)
    self.drop = nn.Dropout(0.5)
    self.memory = torch.zeros(8)
    self.seen = [torch.zeros(1)]
    self.calls = 0
def forward(self, x):
    self.calls += 1
    self.memory = self.memory + x.mean(0)
    self.seen[0] += 1
    self.norm.running_mean.add_(1)
    return self.drop(self.norm(x)) + self.memory, self.norm.running_mean * 1, self.seen[0] * 1, self.calls
""")
    first, _ = t._run(t.trial(0, 3).inputs, 3)
    second, _ = t._run(t.trial(0, 3).inputs, 3)
    for a, b in zip(first, second, strict=False):
        assert a == b if isinstance(a, int) else torch.equal(a, b)
    assert t.random
    result = compare(t.trial(0, 3).expected, first)
    assert result["pass"], result
    assert [entry[0] for entry in t.reference.state()] == ["norm.weight", "norm.bias", "norm.running_mean",
                                                           "norm.running_var", "norm.num_batches_tracked"]
    assert torch.equal(t.reference.state()[2][2], torch.zeros(8))


def test_knows_what_state_the_result_needs():
    norm = "def __init__(self):\n    super().__init__()\n    self.n = nn.BatchNorm1d(8{})\ndef forward(self, x):\n    return self.n(x)"
    training, cumulative = task(norm.format("")), task(norm.format(", momentum=None"))
    evaluating = task(norm.format("").replace("(8)", "(8).eval()"))
    assert not training.needs([]) and not training.needs(["n.running_mean", "n.running_var", "n.num_batches_tracked"])
    assert training.needs(["n.weight"]) and training.needs(["n.running_mean", "n.bias"]) and training.needs(["other"])
    assert evaluating.needs(["n.running_var"]) and not evaluating.needs(["n.num_batches_tracked"])
    assert not cumulative.needs(["n.num_batches_tracked"])
    index = task("""
def __init__(self):
    super().__init__()
    self.register_buffer('i', torch.arange(8))
    self.register_buffer('keep', torch.ones(8, dtype=torch.bool))
    self.unused = nn.Parameter(torch.ones(3))
def forward(self, x):
    return torch.where(self.keep, x[:, self.i], x * 2)
""")
    assert index.needs(["i"]) and index.needs(["keep"]) and not index.needs(["unused"])   # other indices are refused
    assert torch.equal(index._run(index.input_example, 42)[0], index.output_example)        # and nothing is left behind
    layer = "def __init__(self):\n    super().__init__()\n    self.r = nn.{}(8, 8)\ndef forward(self, x):\n    return self.r(x)[0]"
    for kind in ("LSTM", "GRU", "RNN"):   # these read their weights through a list of their own
        recurrent = task(layer.format(kind))
        assert recurrent.needs(["r.weight_ih_l0"]) and recurrent.needs(["r.bias_hh_l0"])
        assert recurrent.trial(0, 1).expected.leaves[0][2].gold.dtype == torch.float64


def test_closures_see_the_float64_module():
    t = task("""
def __init__(self):
    super().__init__()
    self.m = nn.ModuleDict({'l': nn.Linear(8, 8)})
    m = self.m
    self.f = lambda x: m.l(x)
def forward(self, x):
    return self.f(x)
""")
    leaf = t.trial(0, 1).expected.leaves[0][2]
    assert leaf.gold.dtype == torch.float64 and 0 < leaf.honest < 1e-6


def test_random_numbers_agree_between_float32_and_float64():
    t = task("def forward(self, x):\n    return x + torch.randn(8) + torch.empty(8).normal_() + torch.rand_like(x)")
    assert t.trial(0, 1).expected.leaves[0][2].honest < 1e-6


DROPOUT = "def forward(self, x):\n    return F.dropout(x * 2, {p}, training={training})"


@pytest.mark.parametrize("body,draws", [
    (DROPOUT.format(p=0.25, training=True), True),
    (DROPOUT.format(p=0.25, training=False), False),
    (DROPOUT.format(p=0.0, training=True), False),
    ("def forward(self, x):\n    return x * torch.rand(8)", True),
    ("def forward(self, x):\n    import random\n    return x * random.random()", True),
    ("def forward(self, x):\n    import numpy\n    return x * float(numpy.random.rand())", True),
    ("def forward(self, x):\n    return x * torch.rand(8, generator=torch.Generator().manual_seed(3))", False),
])
def test_knows_which_tasks_draw(body, draws):
    t = task(body)
    assert t.random is draws
    trial = t.trial(0, 1)
    assert t.compare(0, trial.expected.eager)["status"] == "ok"      # the same numbers are right in any case
    other = t.compare(0, torch.flip(trial.expected.eager, (0, 1)))
    assert other["status"] == ("inconclusive:random" if draws else "correctness_error:values"), other
    assert not other["pass"]


def test_random_tasks_still_refuse_what_no_seed_explains():
    t = task("def forward(self, x):\n    return F.dropout(x, 0.5), x + 1")
    trial = t.trial(0, 1)
    dropped, plain = trial.expected.eager
    assert t.compare(0, (dropped, plain))["pass"]
    assert t.compare(0, (dropped * 0, plain))["status"] == "inconclusive:random"
    assert t.compare(0, (dropped, plain * 0))["status"] == "correctness_error:values"
    assert t.compare(0, (dropped * 0, plain * 0))["status"] == "correctness_error:values"
    assert t.compare(0, (dropped * 0, plain[1:]))["status"] == "correctness_error:shape"
    assert t.compare(0, (dropped.double(), plain))["status"] == "correctness_error:dtype"
    assert t.compare(0, dropped)["status"] == "correctness_error:arity"
    untouched = t.compare(0, (dropped * 0, plain), [trial.inputs[0] + 1])
    assert untouched["status"] == "cheating:input_mutation"


def test_rare_draws_are_found():
    t = task("def forward(self, x):\n    return x * 2 if torch.rand(()) < 0.5 else x")
    trial = t.trial(0, 1)
    assert t.compare(0, trial.inputs[0] * 3)["status"] == "inconclusive:random"


def test_random_shapes_and_random_writes_to_inputs():
    t = task("def forward(self, x):\n    return x[torch.rand(4) < 0.5]")
    assert t.compare(0, t.trial(0, 1).expected.eager[:0])["status"] == "inconclusive:random"
    t = task("def forward(self, x):\n    return F.dropout(x, 0.5, inplace=True) * 2")
    trial = t.trial(0, 1)
    result = t.compare(0, trial.inputs[0] * 0, [trial.inputs[0] * 0])
    assert result["status"] == "inconclusive:random", result
    assert t.compare(0, trial.expected.eager, [trial.inputs[0] * 3])["status"] == "inconclusive:random"
    assert t.compare(0, trial.inputs[0] * 0, [trial.inputs[0]])["status"] == "cheating:input_mutation"


# ---- distributions ----

def test_distributions():
    g = torch.Generator().manual_seed(1)
    draw = {name: sample(name, (64, 100), torch.float32, g) for name in ORDER[1:]}
    assert abs(float(draw["normal"].std()) - 1) < 0.1
    assert float(draw["uniform"].abs().max()) <= 1 and float(draw["uniform"].min()) < -0.9
    assert float(draw["large"].std()) > 50 and float(draw["tiny"].abs().max()) < 1e-3
    sparse = draw["sparse_outliers"]
    assert 0.85 < float((sparse == 0).float().mean()) < 0.98 and float(sparse.abs().max()) == 1000
    assert torch.equal(draw["constant_rows"], draw["constant_rows"][:, :1].expand(64, 100))


def test_distributions_keep_labels_masks_and_structure():
    t = task("def forward(self, x, p, y, m):\n    return F.nll_loss(torch.log(p), y) + (x * m).sum()",
             "[torch.triu(torch.rand(6, 6)), torch.rand(6, 4).softmax(-1), torch.randint(0, 4, (6,)), torch.ones(6, 6)]")
    for index in range(7):
        trial = t.trial(index, 10 + index)
        x, p, y, m = trial.inputs
        assert torch.equal(x, torch.triu(x)) and torch.equal(m, torch.ones(6, 6))
        assert torch.allclose(p.sum(-1), torch.ones(6), atol=1e-5)
        assert y.dtype == torch.int64 and int(y.min()) >= 0 and int(y.max()) < 4
    assert float(t.trial(3, 13).inputs[0].abs().max()) > 50


def test_distributions_that_do_not_fit_are_skipped():
    t = task("def forward(self, x):\n    return torch.sqrt(x)")
    assert t.trial(0, 1).skipped == "" and "not finite" in t.trial(1, 1).skipped
    t = task("def forward(self, x, y):\n    return F.binary_cross_entropy(x, y)", "[torch.rand(4, 8), torch.rand(4, 8)]")
    assert "refuses" in t.trial(1, 1).skipped
    t = task(RELU, "[torch.ones(4, 8)]")
    assert "no random" in t.trial(1, 1).skipped


# ---- comparison ----

SOFTMAX = "def forward(self, x):\n    return torch.softmax(x, -1)"
LINEAR = ("def __init__(self):\n    super().__init__()\n    self.w = nn.Parameter(torch.randn(256, 64))\n"
          "    self.b = nn.Parameter(torch.randn(64) * 0.01)\ndef forward(self, x):\n    return x @ self.w + self.b")


def to_bits(t, bits):
    i = t.contiguous().view(torch.int32)
    return ((i + (1 << (22 - bits))) & ~((1 << (23 - bits)) - 1)).view(torch.float32)


def test_honest_products_pass_and_coarse_ones_do_not():
    t = task(LINEAR, "[torch.rand(32, 256)]")
    w, b = (e[2] for e in t.reference.state())

    def sequential(x):
        out = torch.zeros(32, 64)
        for k in range(256):
            out += x[:, k:k + 1] * w[k]
        return out + b

    assert set(judge(t, sequential)) == {"ok"}
    assert set(judge(t, lambda x: (x.double() @ w.double() + b.double()).float())) == {"ok"}
    for wrong in (lambda x: to_bits(x, 10) @ to_bits(w, 10) + b,            # TF32
                  lambda x: (x.bfloat16() @ w.bfloat16()).float() + b,
                  lambda x: (x.half() @ w.half()).float() + b,
                  lambda x: x @ w,                                          # no bias
                  lambda x: x[:, :-1] @ w[:-1] + b):                        # last term missing
        assert "correctness_error:values" in judge(t, wrong)


def test_honest_softmax_passes():
    t = task(SOFTMAX, "[torch.rand(8, 5000)]")

    def naive(x):
        import numpy
        e = torch.exp(x - x.amax(-1, keepdim=True))
        return e / torch.from_numpy(numpy.add.accumulate(e.numpy(), axis=-1, dtype=numpy.float32)[:, -1:].copy())

    def fast(x):
        e = torch.exp2((x - x.amax(-1, keepdim=True)) * 1.4426950408889634)
        return e / e.sum(-1, keepdim=True)

    assert set(judge(t, naive)) == {"ok"} and set(judge(t, fast)) == {"ok"}
    assert "correctness_error:values" in judge(t, lambda x: torch.exp(x) / torch.exp(x).sum(-1, keepdim=True))  # overflows
    assert "correctness_error:values" in judge(t, lambda x: torch.softmax(x, -1).half().float())
    assert "correctness_error:values" in judge(t, lambda x: torch.zeros_like(x))


def test_few_sensitive_elements_do_not_refuse_an_honest_product():
    """tanh behind a product of large values: exact nearly everywhere, and a cancellation's error in a few elements."""
    t = task("def forward(self, x):\n    return torch.tanh(x @ x.t() / x.shape[1] ** 0.5)", "[torch.randn(64, 250)]")
    large = ORDER.index("large")
    for seed in range(1000, 1012):
        trial = t.trial(large, seed)
        x = trial.inputs[0]
        honest = torch.zeros(64, 64)
        for k in range(250):
            honest = honest + x[:, k:k + 1] * x[:, k:k + 1].t()
        verdict = t.compare(large, torch.tanh(honest / 250**0.5))
        assert verdict["pass"], verdict["message"]
        short = x[:, :-5] @ x[:, :-5].t()       # the last terms missing
        assert not t.compare(large, torch.tanh(short / 250**0.5))["pass"]


def test_missing_eps_shows():
    t = task("def __init__(self):\n    super().__init__()\n    self.n = nn.LayerNorm(64)\n"
             "def forward(self, x):\n    return self.n(x)", "[torch.rand(16, 64)]")

    def norm(eps):
        def f(x):
            d = x - x.mean(-1, keepdim=True)
            return d / torch.sqrt(d.square().mean(-1, keepdim=True) + eps)
        return f

    def one_pass(x):
        mean = x.mean(-1, keepdim=True)
        return (x - mean) * torch.rsqrt((x * x).mean(-1, keepdim=True) - mean * mean + 1e-5)

    assert set(judge(t, norm(1e-5))) == {"ok"}
    assert "correctness_error:values" in judge(t, norm(0.0))
    assert "correctness_error:values" in judge(t, norm(1e-6))
    assert judge(t, one_pass, trials=3) == ["ok", "ok", "ok"]


def expected(eager, gold=None):
    return Expected(eager, gold if gold is not None else (eager.double() if eager.is_floating_point() else eager))


def test_structure_shape_dtype_device_are_strict():
    a = torch.rand(3, 4)
    e = Expected((a, [a, 3]), (a.double(), [a.double(), 3]))
    assert compare(e, [a, (a, 3)])["pass"]                     # list for tuple
    for got, status in (((a,), "arity"), (a, "arity"), ((a, [a, a]), "arity"), ((a, [a, 4]), "values"), ((a, [a, None]), "arity"),
                        ((a.t(), [a, 3]), "shape"), ((a.double(), [a, 3]), "dtype"),
                        ((OnCpu({}), [a, 3]), "device")):
        assert compare(e, got)["status"] == f"correctness_error:{status}", got
    assert compare(expected(torch.tensor([1, 2])), torch.tensor([1, 2], dtype=torch.int32))["status"] == "correctness_error:dtype"


def test_nan_and_infinity_must_be_in_place():
    nan, inf = math.nan, math.inf
    e = expected(torch.tensor([1.0, nan, inf, -inf]))
    assert compare(e, torch.tensor([1.0, nan, inf, -inf]))["pass"]
    for got in ([1.0, 0.0, inf, -inf], [nan, nan, inf, -inf], [1.0, nan, inf, inf], [1.0, nan, 3e38, -inf], [inf, nan, inf, -inf]):
        result = compare(e, torch.tensor(got))
        assert result["status"] == "correctness_error:values" and result["nonfinite_mismatch"] == 1, got
        json.dumps(result, allow_nan=False)


def test_worst_element_is_reported():
    eager = torch.arange(12.0).reshape(3, 4)
    got = eager.clone()
    got[2, 1] += 0.5
    got[0, 0] += 0.001
    worst = compare(expected(eager), got)["worst"]
    assert worst["index"] == [2, 1] and worst["expected"] == 9 and worst["got"] == 9.5 and worst["error"] == 0.5
    assert worst["ratio"] == pytest.approx(0.5 / worst["budget"])


def test_integers_are_exact_and_ties_may_go_either_way():
    e = Expected(torch.tensor([3, 1, 2]), torch.tensor([3, 1, 5]))
    assert compare(e, torch.tensor([3, 1, 2]))["pass"] and compare(e, torch.tensor([3, 1, 5]))["pass"]
    assert not compare(e, torch.tensor([3, 1, 4]))["pass"]


def test_empty_outputs_and_zero_outputs():
    assert compare(expected(torch.empty(0, 3)), torch.empty(0, 3))["pass"]
    e = expected(torch.zeros(4))
    assert compare(e, torch.zeros(4))["pass"] and not compare(e, torch.full((4,), 1e-6))["pass"]


def test_half_tasks_get_half_budgets():
    t = task("def forward(self, x):\n    return torch.tanh(x) * 3", "[torch.rand(64, 64).half()]")
    assert set(judge(t, lambda x: (torch.tanh(x.float()) * 3).half())) == {"ok"}
    assert "correctness_error:values" in judge(t, lambda x: torch.tanh(x) * 3 * 1.01)


def test_mutation_of_inputs():
    t = task(RELU)
    trial = t.trial(0, 1)
    out = torch.relu(trial.inputs[0])
    assert t.compare(0, out, [trial.inputs[0]])["pass"]
    assert t.compare(0, out, [trial.inputs[0] + 1])["status"] == "cheating:input_mutation"
    t = task("def forward(self, x):\n    x.mul_(2)\n    return x + 1")
    trial = t.trial(0, 1)
    assert t.mutates == [0]
    assert t.compare(0, trial.inputs[0] * 2 + 1, [trial.inputs[0] * 2])["pass"]
    assert not t.compare(0, trial.inputs[0] * 2 + 1, [trial.inputs[0]])["pass"]


# ---- audit ----

@pytest.mark.parametrize("body, status", [
    (RELU, "ok"),
    (SOFTMAX, "ok"),
    ("def forward(self, x):\n    return x", "invalid_task:trivial"),
    ("def forward(self, x):\n    return x - x", "invalid_task:trivial"),
    ("def forward(self, x):\n    return F.gelu(x.max(1, keepdim=True).values - x.max(1, keepdim=True).values.mean(1, keepdim=True))",
     "invalid_task:trivial"),
    ("def forward(self, x):\n    return torch.ones_like(x) * (x.shape[0] / 4)", "invalid_task:trivial"),
    ("def forward(self, x):\n    import os\n    return x * int.from_bytes(os.urandom(2), 'big')", "invalid_task:nondeterministic"),
    ("def forward(self, x):\n    return x.mean()", "ok"),
])
def test_audit(body, status):
    report = audit(task(body))
    assert report["status"] == status, report
    json.dumps(report, allow_nan=False)


@pytest.mark.parametrize("body, computes", [
    (RELU, True), ("def forward(self, x):\n    return x.t().contiguous()", False),
    ("def forward(self, x):\n    return torch.cat([x, x]).clone()", False),
    ("def forward(self, x):\n    return torch.zeros(3)", False), ("def forward(self, x):\n    return x.half()", True),
    ("def forward(self, x):\n    return x[:, :2] + 1", True),
])
def test_computes(body, computes):
    assert task(body).computes == computes


# ---- cases ----

CASED = HEAD + "rows = 6\ncolumns = 40\n"
CASED += "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.weight = nn.Parameter(torch.randn(columns))\n"
CASED += "    def forward(self, x):\n        return torch.softmax(x * self.weight, -1)\n"
CASED += "def get_inputs():\n    return [torch.randn(rows, columns)]\ndef get_init_inputs():\n    return []\n"


def cased(code=CASED, set=(), **inputs):
    return Task(code, "t", Options(set=tuple(set), inputs=Variant.parse(inputs)))


def test_cases_are_told():
    given = [{"name": " unaligned ", "set": {"rows": 7}}, {"name": "far", "values": [100, 101.5]}, {"name": "zero", "values": "zeros", "set": {"rows": 1}},
             {"name": "t", "layout": "transposed"}, {"name": "h", "dtype": "float16", "values": "large"}, {"name": "none", "set": {"rows": 0}},
             {"name": "must", "layout": "strided", "required": True}]
    told = Task(CASED + f"MUSACODER_CASES = {given!r}\n").cases
    assert told[0] == {"name": "unaligned", "set": {"rows": 7}, "inputs": {}, "counts": True}
    assert told[1]["inputs"] == {"values": [100.0, 101.5]} and told[4]["inputs"] == {"values": "large", "dtype": "float16"}
    assert [c["counts"] for c in told] == [True, True, True, False, False, False, True]
    assert Variant.parse(told[1]["inputs"]) == Variant(values=(100.0, 101.5))
    assert Task(CASED).cases == []


@pytest.mark.parametrize("cases, message", [
    ('{"rows": 3}', "a list of dicts is wanted, not a dict"),
    ("[3]", r"\[0\]: a dict is wanted"),
    ('[{"set": {"rows": 3}}]', r"\[0\]: 'name' is a text"),
    ('[{"name": " ", "set": {"rows": 3}}]', "'name' is a text"),
    ('[{"name": "x"}]', "it changes nothing"),
    ('[{"name": "x", "set": {}}]', "it changes nothing"),
    ('[{"name": "a", "set": {"rows": 3}}, {"name": "x", "sizes": {"rows": 3}}]', r"\[1\]: unknown key 'sizes'"),
    ('[{"name": "x", "set": {"rows": -1}}]', "'set' is a dict of constants"),
    ('[{"name": "x", "set": {"rows": True}}]', "'set' is a dict of constants"),
    ('[{"name": "x", "set": {"rows": 2.0}}]', "'set' is a dict of constants"),
    ('[{"name": "x", "set": ["rows"]}]', "'set' is a dict of constants"),
    ('[{"name": "x", "set": {"row": 2}}]', "no size constant 'row'; it has: columns, rows"),
    ('[{"name": "x", "values": "huge"}]', "'values' is one of zeros, ones"),
    ('[{"name": "x", "values": [1]}]', "'values' as a range"),
    ('[{"name": "x", "values": [2, 1]}]', "'values' as a range"),
    ('[{"name": "x", "values": [0, float("inf")]}]', "'values' as a range"),
    ('[{"name": "x", "values": [float("nan"), 1.0]}]', "'values' as a range"),
    ('[{"name": "x", "values": {}}]', "'values' is one of"),
    ('[{"name": "x", "values": 3}]', "'values' is one of"),
    ('[{"name": "x", "layout": "column"}]', "'layout' is one of transposed, strided"),
    ('[{"name": "x", "layout": ["strided"]}]', "'layout' is one of"),
    ('[{"name": "x", "dtype": torch.float16}]', "'dtype' is one of float16, bfloat16"),
    ('[{"name": "x", "dtype": "float64"}]', "'dtype' is one of"),
    ('[{"name": "x", "layout": "strided", "required": 1}]', "'required' is True or False"),
    ('[{"name": "x", "set": {"rows": 3}}] * 9', "9 cases, and at most 8"),
])
def test_malformed_cases_are_refused(cases, message):
    with pytest.raises(TaskError, match="MUSACODER_CASES.*" + message) as refused:
        Task(CASED + f"MUSACODER_CASES = {cases}\n")
    assert refused.value.status == "invalid_task:interface"


@pytest.mark.parametrize("values, holds", [
    ("zeros", lambda x: (x == 0).all()),
    ("ones", lambda x: (x == 1).all()),
    ("negative", lambda x: (x <= 0).all() and x.std() > 0.3),
    ("large", lambda x: x.abs().max() > 50),
    ("tiny", lambda x: 0 < x.abs().max() < 1e-3),
    ([90, 110], lambda x: x.min() >= 90 and x.max() <= 110 and x.std() > 3),
])
def test_values_of_a_case(values, holds):
    t = cased(values=values)
    for index in range(2):
        trial = t.trial(index, 5 + index)
        assert trial.skipped == "" and bool(holds(trial.inputs[0]))
        good = torch.softmax(trial.inputs[0] * t.reference.module.weight.detach(), -1)
        assert t.compare(index, good)["pass"] and not t.compare(index, good * 1.001)["pass"]
    assert torch.equal(t.reference.module.weight, cased().reference.module.weight)


def test_values_keep_structure_and_what_does_not_fit_is_told():
    t = task("def forward(self, x, y):\n    return F.nll_loss(x, y)", "[torch.triu(torch.rand(6, 6)), torch.randint(0, 6, (6,))]",
             variant=Variant("ones"))
    x, y = t.trial(0, 3).inputs
    assert torch.equal(x, torch.triu(torch.ones(6, 6))) and y.dtype == torch.int64
    assert "not finite on zeros inputs" in task("def forward(self, x):\n    return torch.log(x)", variant=Variant("zeros")).trial(0, 1).skipped
    far = task("def forward(self, x):\n    return torch.exp(x)", variant=Variant((100.0, 101.0))).trial(0, 1)
    assert far.skipped.endswith("overflows on 100 to 101 inputs")
    with pytest.raises(TaskError, match="draws no random"):
        task(RELU, "[torch.ones(4, 8)]", variant=Variant("zeros"))


def test_a_row_of_zeros_finds_the_missing_guard():
    body = "def forward(self, x):\n    return F.normalize(x, dim=1)"
    t = task(body, "[torch.randn(20, 200)]")
    plain = lambda x: x * x.square().sum(1, keepdim=True).rsqrt()  # noqa: E731
    assert set(judge(t, plain)) == {"ok"}
    t = task(body, "[torch.randn(20, 200)]", variant=Variant("zeros"))
    assert judge(t, plain, 2) == ["correctness_error:values"] * 2
    assert judge(t, lambda x: torch.nn.functional.normalize(x, dim=1), 2) == ["ok", "ok"]


@pytest.mark.parametrize("layout, strides", [("transposed", (1, 6)), ("strided", (80, 2))])
def test_layout_of_a_case(layout, strides, tmp_path):
    t, own = cased(layout=layout), cased()
    for index in range(2):
        x = t.trial(index, 8).inputs[0]
        assert x.stride() == strides and torch.equal(x, own.trial(index, 8).inputs[0])
        assert t.compare(index, torch.softmax(x * t.reference.module.weight.detach(), -1), [x])["pass"]
    # Who takes the memory for a contiguous matrix meets NaN or another order.
    flat = torch.as_strided(x, (6, 40), (40, 1))
    assert not t.compare(1, torch.softmax(flat * t.reference.module.weight.detach(), -1))["pass"]
    writer = FileWriter(str(tmp_path), "x.bin")
    node = encode(x, writer.place)
    writer.close()
    assert torch.equal(decode(node, str(tmp_path)), x)
    with pytest.raises(TaskError, match="no input of the task can be laid out transposed"):
        task(RELU, "[torch.rand(8)]", variant=Variant(layout="transposed"))
    assert task(RELU, "[torch.rand(8)]", variant=Variant(layout="strided")).trial(0, 1).inputs[0].stride() == (2,)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_dtype_of_a_case(name):
    t, own, dtype = cased(dtype=name), cased(), getattr(torch, name)
    (_, _, weight), = t.reference.state()
    assert weight.dtype == dtype and torch.equal(weight, own.reference.state()[0][2].to(dtype))
    for index in range(2):
        trial = t.trial(index, 9)
        x = trial.inputs[0]
        assert x.dtype == dtype and torch.equal(x, own.trial(index, 9).inputs[0].to(dtype))
        good = torch.softmax(x.float() * weight.float(), -1)
        assert t.compare(index, good.to(dtype))["pass"]
        assert t.compare(index, good)["status"] == "correctness_error:dtype"
        assert t.compare(index, (good * 1.1).to(dtype))["status"] == "correctness_error:values"
    with pytest.raises(TaskError, match="nothing of the task is float32"):
        task(RELU, "[torch.rand(4, 8).double()]", variant=Variant(dtype=name))


def test_large_values_stay_in_the_range_of_the_dtype():
    body = "def forward(self, x):\n    return x.square().sum(-1)"
    t = task(body, "[torch.randn(16, 64)]", variant=Variant("large", "", "float16"))
    assert t.trial(0, 1).skipped == "" and judge(t, lambda x: x.float().square().sum(-1).half(), 2) == ["ok", "ok"]


def test_sizes_of_none():
    t = cased(set=[("rows", 0)])
    assert not t.computes and t.input_example[0].shape == (0, 40)
    assert t.trial(0, 1).skipped == "" and t.compare(0, torch.empty(0, 40))["pass"]
    assert t.compare(0, torch.empty(1, 40))["status"] == "correctness_error:shape"
    with pytest.raises(TaskError, match="'rows' must be a positive integer"):
        Task(CASED, "t", Options(set=(("rows", 0),)))


def test_cases_over_the_protocol(tmp_path):
    runner = Runner(tmp_path)
    code = CASED + "MUSACODER_CASES = [{'name': 'h', 'dtype': 'float16', 'layout': 'strided', 'values': [2, 3]}]\n"
    case, = runner.ask(op="open", task="t", code=code)["cases"]
    opened = runner.ask(op="open", task="t", code=code, set=case["set"], inputs=case["inputs"])
    assert opened["ok"] and not opened["cached"] and opened["state"][0]["dtype"] == "float16"
    trial = runner.ask(op="trial", handle=opened["handle"], index=1, seed=4)
    assert trial["distribution"] == "2 to 3" and trial["inputs"]["items"][0]["strides"] == [80, 2]
    x = decode(trial["inputs"], str(tmp_path))[0]
    assert x.dtype == torch.float16 and float(x.min()) >= 2 and float(x.max()) <= 3
    bad = runner.ask(op="open", task="t", code=code, inputs={"values": "many"})
    assert bad["status"] == "infra:bad_request" and "'inputs': 'values' is one of" in bad["message"]
    assert runner.ask(op="open", task="t", code=code, inputs={"kind": 1})["status"] == "infra:bad_request"
    assert runner.end() == b""


# ---- faults ----

@pytest.mark.parametrize("code, status", [
    ("def f(:", "invalid_task:syntax"),
    ("x = 1", "invalid_task:interface"),
    (HEAD + "class Model(nn.Module):\n    def forward(self, x): return 3\ndef get_inputs(): return [1]", "invalid_task:interface"),
    (HEAD + "import nonexistent_module_x\nclass Model: pass\ndef get_inputs(): return []", "invalid_task:missing_module"),
    (HEAD + "class Model(nn.Module):\n    def forward(self, x): return x @ x\ndef get_inputs(): return [torch.rand(2, 3)]",
     "invalid_task:exception"),
    (HEAD + "class Model(nn.Module):\n    def forward(self, x): exit(3)\ndef get_inputs(): return [torch.rand(2, 3)]",
     "invalid_task:exception"),
    (HEAD + "class Model(nn.Module):\n    def forward(self, x): return x.to_sparse()\ndef get_inputs(): return [torch.rand(2, 3)]",
     "invalid_task:unsupported"),
])
def test_faults_have_names(code, status):
    with pytest.raises(TaskError) as caught:
        Task(code)
    assert caught.value.status == status, caught.value.message


def test_full_inputs_are_never_made():
    t = task("def forward(self, x):\n    return x * 2", "[torch.rand(rows, 1 << 20)]", constants="rows = 1 << 20")
    assert t.scaling.work_full > 1e12 and t.input_example[0].numel() < 1 << 21


# ---- trees, files, protocol ----

def test_trees_round_trip(tmp_path):
    value = {"a": torch.arange(6.0).reshape(2, 3).t(), "b": [1, 2.5, True, None, "x"], "c": (torch.tensor(3, dtype=torch.int8),),
             "d": torch.rand(3, 4)[:, 1:3], "e": torch.ones(1).expand(5), "f": torch.tensor([True, False]), "g": float("nan"),
             "h": torch.rand(2, dtype=torch.bfloat16), "i": torch.empty(0, 2)}
    writer = FileWriter(str(tmp_path), "x.bin")
    tree = json.loads(json.dumps(encode(value, writer.place), allow_nan=False))
    writer.close()
    back = decode(tree, str(tmp_path))
    for key in "adefhi":
        assert torch.equal(back[key], value[key]), key
    assert back["b"] == value["b"] and torch.equal(back["c"][0], value["c"][0]) and math.isnan(back["g"])
    assert back["a"].stride() == value["a"].stride()
    for bad in ({"t": "tensor", "dtype": "float32", "shape": [1 << 40], "strides": [1], "file": "x.bin", "offset": 0},
                {"t": "tensor", "dtype": "float99", "shape": [1], "strides": [1], "file": "x.bin", "offset": 0},
                {"t": "tensor", "dtype": "float32", "shape": [2], "strides": [-1], "file": "x.bin", "offset": 0},
                {"t": "tensor", "dtype": "float32", "shape": [2], "strides": [1], "file": "../../etc/passwd", "offset": 0},
                {"t": "tensor", "dtype": "float32", "shape": [2], "strides": [1]}):
        with pytest.raises(TaskError):
            decode(bad, str(tmp_path))


def test_protocol(tmp_path):
    runner = Runner(tmp_path)
    assert runner.ask(op="hello")["torch"] == torch.__version__
    code = HEAD + ("print('hello')\nimport os\nos.system('echo noise')\nclass Model(nn.Module):\n    def forward(self, x):\n"
                   "        print('x')\n        return torch.relu(x)\ndef get_inputs(): return [torch.rand(5, 7)]\n")
    opened = runner.ask(op="open", task="t", code=code)
    assert opened["ok"] and opened["seed"] == 42 and opened["ops"] and opened["input_tree"]["items"][0]["shape"] == [5, 7]
    handle = opened["handle"]
    trial = runner.ask(op="trial", handle=handle, index=5, seed=9)
    assert trial["distribution"] == "sparse_outliers" and trial["skipped"] is None
    x = decode(trial["inputs"], str(tmp_path))[0]
    writer = FileWriter(str(tmp_path), "out.bin")
    outputs = encode(torch.relu(x), writer.place)
    writer.close()
    assert runner.ask(op="compare", handle=handle, index=5, outputs=outputs, inputs_after=trial["inputs"])["pass"]
    again = runner.ask(op="trial", handle=handle, index=5, seed=9)
    assert torch.equal(decode(again["inputs"], str(tmp_path))[0], x)
    assert runner.ask(op="open", task="t", code=code)["cached"]
    assert runner.ask(op="audit", handle=handle)["status"] == "ok"
    assert runner.ask(op="close", handle=handle)["ok"]
    assert runner.ask(op="trial", handle=handle, index=0, seed=1)["status"] == "infra:bad_request"
    assert runner.ask(op="nothing")["status"] == "infra:bad_request"
    assert runner.ask(op="open", task="t", code=code.replace("torch.rand", "exec('while True: pass')"), timeout_s=1)["status"] == \
        "invalid_task:timeout"
    offline = HEAD + "import socket\nsocket.create_connection(('127.0.0.1', 9))\nclass Model: pass\ndef get_inputs(): return []\n"
    assert runner.ask(op="open", task="t", code=offline)["status"] == "invalid_task:unavailable"
    assert runner.ask(op="open", task="t", code=code)["ok"]
    assert runner.end() == b""          # what tasks print is not ours to print


def test_kernelbench_scales_and_runs():
    path = pathlib.Path(os.environ.get("MUSACODER_DATA", ROOT.parent / "shared" / "data")) / "kernelbench.jsonl"
    if not path.exists():
        pytest.skip(f"no KernelBench data at {path}")
    wanted = {(1, 1), (1, 8), (1, 19), (1, 72), (1, 95), (1, 97), (1, 100), (2, 3), (2, 62), (2, 66), (3, 35), (3, 44), (3, 46)}
    for row in map(json.loads, path.read_text().splitlines()):
        if (row["level"], row["id"]) in wanted:
            t = Task(row["code"], row["name"])
            trial = t.trial(0, 1)
            assert compare(trial.expected, trial.expected.eager)["pass"], row["name"]
            assert sum(x.numel() * 4 for x in trial.inputs if isinstance(x, torch.Tensor)) <= 1 << 20, row["name"]
