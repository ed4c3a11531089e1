"""The reference runner's device mode, through the real process and its socket, with the host in the place of a GPU.

The candidate is played by reference_client: it maps the arena, reads the inputs where the reply says, writes outputs to its slots.
"""

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

from musaref.compare import Expected, compare  # noqa: E402
from musaref.device.arena import ALIGN, GUARD, POISON, Arena, Plan  # noqa: E402
from musaref.device.expected import DeviceExpected  # noqa: E402
from musaref.device.place import OnDevice  # noqa: E402
from musaref.device.task import Context, DeviceTask  # noqa: E402
from musaref.device.tiles import Largest, digest, memory, same  # noqa: E402
from musaref.errors import TaskError, classify  # noqa: E402
from musaref.session import Options  # noqa: E402
from musaref.tolerance import largest  # noqa: E402
from musaref.tree import tree_map  # noqa: E402
from reference_client import DeviceJudge  # noqa: E402
from timed_loop import TimedLoop  # noqa: E402

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


def source(body, inputs="[torch.rand(40, 33)]", init="[]", constants=""):
    code = f"{HEAD}class Model(nn.Module):\n" + "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    return code + f"{constants}\ndef get_inputs():\n    return {inputs}\ndef get_init_inputs():\n    return {init}\n"


RELU = source("def forward(self, x):\n    return torch.relu(x)")


@pytest.fixture
def judge(tmp_path):
    judge = DeviceJudge(tmp_path)
    yield judge
    assert judge.end() == b""       # what tasks print is not ours to print


# ---- through the socket ----

def test_right_and_wrong_outputs(judge):
    opened = judge.open(RELU)
    handle = opened["handle"]
    assert opened["gold"] == "float64" and opened["device"]["name"] == "host" and opened["device"]["memory_bytes"] > 0
    assert opened["scaling"] == [] and not opened["scaled"]
    for index in range(7):
        result = judge.trial(handle, index, 100 + index, torch.relu)
        assert result["pass"] and result["allclose"] and result["total"] == 40 * 33, result
        assert len(result["digest"]) == 32 and result["gold"] == "float64"

    def off(x):
        y = torch.relu(x)
        y[7, 5] += 0.25
        return y
    result = judge.trial(handle, 0, 5, off)
    assert not result["pass"] and result["status"] == "correctness_error:values" and result["mismatched"] == 1
    assert result["worst"]["index"] == [7, 5] and result["worst"]["error"] == pytest.approx(0.25, rel=1e-5)
    assert result["wrong"] == [""] and "output[7][5]" in result["message"]
    # Outputs that were never written hold poison, which is NaN.
    nothing = judge.trial(handle, 0, 5, torch.relu, lambda trial, arena, tree: arena[
        trial["outputs"][0]["arena"]:trial["outputs"][0]["arena"] + 8].view(torch.int16).fill_(POISON))
    assert nothing["mismatched"] == 2 and nothing["nonfinite_mismatch"] == 2


def test_shapes_dtypes_devices_and_structure(judge):
    handle = judge.open(RELU)["handle"]

    def status(candidate, spoil=None):
        return judge.trial(handle, 0, 1, candidate, spoil)["status"]
    assert status(lambda x: torch.relu(x)[:3]) == "correctness_error:shape"
    assert status(lambda x: torch.relu(x).double()) == "correctness_error:dtype"
    assert status(lambda x: torch.relu(x).int()) == "correctness_error:dtype"      # as many bytes as expected
    assert status(lambda x: (torch.relu(x), x)) == "correctness_error:arity"
    assert status(lambda x: torch.relu(x).reshape(33, 40)) == "correctness_error:shape"
    assert status(lambda x: 3.5) == "correctness_error:arity"

    def on_host(trial, arena, tree):
        del tree["slot"]
        tree["device"] = "cpu"
    assert status(torch.relu, on_host) == "correctness_error:device"
    assert status(torch.relu, lambda trial, arena, tree: tree.pop("slot")) == "correctness_error:device"
    assert status(lambda x: torch.relu(x).t().contiguous().t()) == "ok"


def test_guard_zones(judge):
    handle = judge.open(source("def forward(self, x, y):\n    return x + y", "[torch.rand(7, 9), torch.rand(7, 9)]"))["handle"]

    def beyond(at, before=False):
        def spoil(trial, arena, tree):
            node = trial["inputs"]["items"][at]
            arena[node["arena"] + (-3 if before else node["nbytes"] + 5)] ^= 1
        return spoil
    result = judge.trial(handle, 0, 1, torch.add, beyond(1))
    assert result["status"] == "runtime_error:illegal_access" and not result["pass"]
    assert "past the end of input 1" in result["message"] and " 5 bytes past it" in result["message"]
    result = judge.trial(handle, 0, 1, torch.add, beyond(0, before=True))
    assert "before the start of input 0" in result["message"] and " 3 bytes before it" in result["message"]
    trial = judge.good(op="trial", handle=handle, index=0, seed=1)
    arena = judge.arena(trial["arena"])
    for node in [*trial["inputs"]["items"], *trial["outputs"]]:
        assert node["arena"] % ALIGN == 0
        for begin in (node["arena"] - GUARD, -(-(node["arena"] + node["nbytes"]) // 8) * 8):
            zone = arena[begin:begin + GUARD - 8]
            for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
                assert bool(torch.isnan(zone.view(dtype)).all())
    assert judge.trial(handle, 0, 1, torch.add)["pass"]


def test_input_mutation(judge):
    handle = judge.open(RELU)["handle"]
    result = judge.trial(handle, 0, 1, lambda x: x.relu_())
    assert result["status"] == "ok", result            # a relu of positive numbers changes nothing
    result = judge.trial(handle, 1, 1, lambda x: x.relu_())
    assert result["status"] == "cheating:input_mutation" and "input 0" in result["message"]
    opened = judge.open(source("def forward(self, x):\n    x.mul_(2)\n    return x + 1"))
    assert opened["reference_mutates"] == [0]
    assert judge.trial(opened["handle"], 0, 1, lambda x: x.mul_(2) + 1)["pass"]
    left_alone = judge.trial(opened["handle"], 0, 1, lambda x: x * 2 + 1)
    assert left_alone["status"] == "cheating:input_mutation" and "left alone" in left_alone["message"]


def test_many_kinds_of_outputs(judge):
    code = source("def forward(self, x, m):\n    return {'h': x.half() * 3, 'b': (x.bfloat16() + 1, [x.argmax(1), m & 3]), "
                  "'f': x > 0.5, 'n': 4, 'c': torch.complex(x, x), 'e': x[:0]}",
                  "[torch.rand(16, 24), torch.randint(0, 9, (5,))]")

    def candidate(x, m):
        return {"h": x.half() * 3, "b": (x.bfloat16() + 1, [x.argmax(1), m & 3]), "f": x > 0.5, "n": 4, "c": torch.complex(x, x),
                "e": x[:0]}
    opened = judge.open(code)
    handle = opened["handle"]
    trial = judge.good(op="trial", handle=handle, index=0, seed=3)
    assert [s["nbytes"] for s in trial["outputs"]] == [768, 768, 128, 40, 384, 3072, 0]
    for index in range(7):
        result = judge.trial(handle, index, 9, candidate)
        assert result is None or result["pass"], result

    def with_wrong(change):
        def run(x, m):
            out = candidate(x, m)
            change(out)
            return out
        return judge.trial(handle, 0, 9, run)
    assert with_wrong(lambda o: o["b"][1][0].add_(1))["wrong"] == ["['b'][1][0]"]
    assert with_wrong(lambda o: o["h"][3].mul_(1.01))["wrong"] == ["['h']"]
    assert with_wrong(lambda o: o["c"][15, 23].mul_(2))["worst"]["index"] == [15, 23]
    assert with_wrong(lambda o: o["f"].logical_not_())["mismatched"] == 16 * 24
    assert with_wrong(lambda o: o.update(n=5))["wrong"] == ["['n']"]


def test_strides_and_values_that_are_no_tensors(judge):
    handle = judge.open(source("def forward(self, x, s, n, e):\n    return x * s + e if n is None else x",
                               "[torch.rand(6, 8).t(), 2.5, None, torch.rand(6).expand(8, 6)]"))["handle"]
    trial = judge.good(op="trial", handle=handle, index=0, seed=1)
    x, s, n, e = trial["inputs"]["items"]
    assert x["strides"] == [1, 8] and s == {"t": "float", "v": 2.5} and n == {"t": "none"} and e["nbytes"] == 24
    assert judge.trial(handle, 0, 1, lambda x, s, n, e: x * s + e)["pass"]


def test_cases(judge):
    code = source("def __init__(self):\n    super().__init__()\n    self.w = nn.Parameter(torch.randn(33))\n"
                  "def forward(self, x):\n    return torch.softmax(x * self.w, -1)", "[torch.randn(rows, 33)]", constants="rows = 40\n")
    torch.manual_seed(42)
    w = torch.randn(33)

    def softmax(x):
        return torch.softmax(x.float() * w.to(x.dtype).float(), -1).to(x.dtype)
    for inputs, strides in (({"values": "zeros"}, [33, 1]), ({"values": [5, 6]}, [33, 1]), ({"layout": "transposed"}, [1, 40]),
                            ({"layout": "strided"}, [66, 2]), ({"dtype": "float16"}, [33, 1]), ({"dtype": "float16", "layout": "strided"}, [66, 2])):
        opened = judge.open(code, inputs=inputs)
        dtype = inputs.get("dtype", "float32")
        assert opened["state"][0]["dtype"] == dtype
        for index in range(2):
            trial = judge.good(op="trial", handle=opened["handle"], index=index, seed=7)
            assert trial["skipped"] is None and trial["inputs"]["items"][0]["strides"] == strides
            assert trial["inputs"]["items"][0]["dtype"] == dtype
            assert judge.trial(opened["handle"], index, 7, softmax)["pass"], inputs
            wrong = judge.trial(opened["handle"], index, 7, lambda x: softmax(x) * (1.05 if x.element_size() == 4 else 1.3))
            assert wrong["status"] == "correctness_error:values", inputs
    # Who takes the memory for a contiguous matrix meets the NaN between the elements.
    handle = judge.open(code, inputs={"layout": "strided"})["handle"]
    assert judge.trial(handle, 0, 7, lambda x: softmax(torch.as_strided(x, x.shape, (33, 1))))["nonfinite_mismatch"] > 0
    empty = judge.open(code, set={"rows": 0}, inputs={})
    assert not empty["computes"]
    result = judge.trial(empty["handle"], 0, 7, softmax)
    assert result["pass"] and result["total"] == 0
    assert judge.ask(op="open", task="t", code=code, device="host", set={"rows": 0})["status"] == "invalid_task:set"


def test_timed_calls_of_a_case(judge):
    handle = judge.open(RELU, inputs={"values": "negative", "dtype": "float16"})["handle"]
    reply, timed = judge.timed(handle, lambda k, x: torch.relu(x))
    assert reply["pass"] and timed["sets"][0]["items"][0]["dtype"] == "float16"
    assert not judge.timed(handle, lambda k, x: torch.relu(x) - x)[0]["pass"]
    assert judge.good(op="baseline", handle=handle, mode="eager", precision="strict", calls=2)["ms"]


def test_trials_stay_in_place_unless_they_move(judge):
    handle = judge.open(RELU)["handle"]
    places = []
    for seed, move in ((1, False), (2, False), (3, True), (4, True), (5, False)):
        trial = judge.good(op="trial", handle=handle, index=1, seed=seed, move=move)
        places.append((trial["inputs"]["items"][0]["arena"], trial["outputs"][0]["arena"], trial["arena"]["id"]))
        assert judge.trial(handle, 1, seed, torch.relu, move=move)["pass"]
    assert places[0] == places[1] == places[4] and len({p[0] for p in places}) == 3 and len({p[2] for p in places}) == 1
    a, b, c = (judge.trial(handle, 1, seed, torch.relu)["digest"] for seed in (1, 2, 1))
    assert a == c != b


def test_tasks_without_random_inputs(judge):
    handle = judge.open(source("def forward(self, x):\n    return x * 2", "[torch.arange(12.0)]"))["handle"]
    assert judge.trial(handle, 0, 1, lambda x: x * 2)["pass"]
    assert "no random" in judge.good(op="trial", handle=handle, index=1, seed=1)["skipped"]
    timed = judge.good(op="timed", handle=handle, calls=3, seed=1)
    assert len(timed["sets"]) == 3


def test_the_arena_grows_and_belongs_to_one_task(judge):
    small = judge.open(RELU)["handle"]
    first = judge.good(op="trial", handle=small, index=0, seed=1)
    large = judge.open(source("def forward(self, x):\n    return x + 1", "[torch.rand(2000, 1000)]"))["handle"]
    second = judge.good(op="trial", handle=large, index=0, seed=1)
    assert second["arena"]["id"] > first["arena"]["id"] and second["arena"]["bytes"] > first["arena"]["bytes"]
    assert judge.ask(op="compare", handle=small, index=0, outputs={"t": "none"})["status"] == "infra:bad_request"
    assert judge.trial(large, 0, 1, lambda x: x + 1)["pass"]
    assert judge.trial(small, 0, 1, torch.relu)["pass"]
    third = judge.good(op="trial", handle=small, index=0, seed=1)
    assert third["arena"]["id"] == second["arena"]["id"]
    assert judge.ask(op="compare", handle=small, index=3, outputs={"t": "none"})["status"] == "infra:bad_request"
    assert judge.ask(op="compare_timed", handle=small, claims=[])["status"] == "infra:bad_request"
    for handle in (small, large):
        judge.good(op="close", handle=handle)
    judge.good(op="release")
    assert not [name for name in os.listdir(judge.run_dir) if name.startswith("arena_")]
    assert judge.trial(judge.open(RELU)["handle"], 0, 1, torch.relu)["pass"]


def test_timed_calls(judge):
    opened = judge.open(source("def __init__(self):\n    super().__init__()\n    self.l = nn.Linear(33, 20)\n"
                               "def forward(self, x):\n    return torch.tanh(self.l(x)), x.argmax(1)"))
    torch.manual_seed(42)
    layer = torch.nn.Linear(33, 20).requires_grad_(False)
    handle = opened["handle"]

    def right(k, x):
        return torch.tanh(layer(x)), x.argmax(1)
    result, timed = judge.timed(handle, right)
    assert result["pass"] and result["failed"] is None and result["compared"] == [40 * 21] * 4, result
    assert len(timed["sets"]) == 4 and len(timed["outputs"]) == 4
    arena = judge.arena(timed["arena"])
    sets = [judge.value(s, arena)[0] for s in timed["sets"]]
    assert all(not torch.equal(sets[0], other) for other in sets[1:])
    again = judge.good(op="timed", handle=handle, calls=4, seed=8, move=True)
    assert again["place"]["items"][0]["arena"] != timed["place"]["items"][0]["arena"]
    assert not torch.equal(judge.value(again["sets"][0], judge.arena(again["arena"]))[0], sets[0])

    first = []

    def replay(k, x):
        first.append(right(k, x))
        return first[0]
    result, _ = judge.timed(handle, replay)
    assert not result["pass"] and result["failed"] == 1 and result["status"] == "correctness_error:values"
    assert result["worst"]["call"] == 1 and result["message"].startswith("call 1: ")
    slow = [lambda k, x: (right(k, x)[0] * (1.001 if k == 3 else 1), x.argmax(1)), lambda k, x: right(k, x)[0]]
    assert judge.timed(handle, slow[0])[0]["failed"] == 3
    assert judge.timed(handle, slow[1])[0]["status"] == "correctness_error:arity"

    def mutates(k, x):
        out = right(k, x)
        x.zero_()
        return out
    assert judge.timed(handle, mutates)[0]["status"] == "cheating:input_mutation"

    def overrun(timed, arena, claims):
        node = timed["place"]["items"][0]
        arena[node["arena"] + node["nbytes"]] = 0
    result, _ = judge.timed(handle, right, spoil=overrun)
    assert result["status"] == "runtime_error:illegal_access" and " 0 bytes past it" in result["message"]
    assert judge.trial(handle, 0, 1, lambda x: right(0, x))["pass"]


def test_timed_calls_of_a_mutating_reference(judge):
    handle = judge.open(source("def forward(self, x):\n    x.mul_(2)\n    return x + 1"))["handle"]
    assert judge.timed(handle, lambda k, x: x.mul_(2) + 1)[0]["pass"]


def test_sensitive_elements_in_timed_calls(judge):
    """tanh of a cancellation: single elements are off by far more than the rest; the full measure decides."""
    handle = judge.open(source("def forward(self, x):\n    return torch.tanh((x * 40) @ (x.t() * 40) - 9600)",
                               "[torch.rand(64, 18)]"))["handle"]

    def honest(k, x):
        x = x * 40
        return torch.tanh(torch.stack([(x * row).flip(1).cumsum(1)[:, -1] for row in x], 1) - 9600)
    result, _ = judge.timed(handle, honest)
    assert result["pass"], result


def test_random_tasks(judge):
    opened = judge.open(source("def forward(self, x):\n    return F.dropout(x * 2, 0.25, training=True)"))
    assert opened["random"] and opened["gold"] == "float32"
    result = judge.trial(opened["handle"], 0, 1, lambda x: torch.flip(x, (0, 1)))
    assert result["status"] == "inconclusive:random" and not result["pass"]

    def same_numbers(x):
        torch.manual_seed(1)
        return torch.nn.functional.dropout(x * 2, 0.25, training=True)
    result = judge.trial(opened["handle"], 0, 1, same_numbers)
    assert result["pass"] and result["gold"] == "float32", result
    assert judge.trial(opened["handle"], 0, 1, lambda x: x.double())["status"] == "correctness_error:dtype"


def test_scale_state_audit_and_needs(judge):
    code = source("def __init__(self, n):\n    super().__init__()\n    self.l = nn.Linear(n, n)\n    self.b = nn.BatchNorm1d(n)\n"
                  "def forward(self, x):\n    return self.b(self.l(x))", "[torch.rand(batch_size, dim)]", "[dim]",
                  "batch_size = 512\ndim = 256")
    opened = judge.open(code)
    assert not opened["scaled"] and opened["input_tree"]["items"][0]["shape"] == [512, 256]
    torch.manual_seed(42)
    weight = torch.nn.Linear(256, 256).weight
    entry = opened["state"][0]
    data = pathlib.Path(judge.run_dir, entry["file"]).read_bytes()[entry["offset"]:entry["offset"] + entry["nbytes"]]
    assert entry["name"] == "l.weight" and torch.equal(torch.frombuffer(bytearray(data), dtype=torch.float32).view(256, 256), weight)
    assert judge.good(op="audit", handle=opened["handle"])["status"] == "ok"
    assert judge.good(op="needs", handle=opened["handle"], names=["l.weight"])["needs"]
    assert not judge.good(op="needs", handle=opened["handle"], names=["b.running_mean"])["needs"]
    tight = judge.open(code, device_memory=600 << 10)
    assert tight["scaled"] and {c["name"] for c in tight["scaling"]} == {"batch_size"}       # batch first
    assert tight["input_tree"]["items"][0]["shape"][1] == 256
    assert judge.open(code, set={"batch_size": 3})["input_tree"]["items"][0]["shape"] == [3, 256]
    assert judge.open(code, scale="auto")["scaled"]
    assert judge.open(code)["cached"]


def test_baseline_device_and_errors(judge):
    handle = judge.open(source("def __init__(self):\n    super().__init__()\n    self.r = nn.LSTM(8, 8)\n    self.t = torch.ones(8)\n"
                               "def forward(self, x):\n    print('x')\n    return self.r(x)[0] + self.t", "[torch.rand(5, 3, 8)]"))["handle"]
    timed = judge.good(op="baseline", handle=handle, mode="eager", precision="strict", calls=5, flush_bytes=1 << 20, warm_s=0.2, seed=1)
    assert len(timed["ms"]) == 5 and all(ms > 0 for ms in timed["ms"]) and timed["first_ms"] > 0 and timed["warm_calls"] >= 1
    assert len(judge.good(op="baseline", handle=handle, mode="eager", precision="tf32", calls=2, seed=1)["ms"]) == 2
    assert judge.ask(op="baseline", handle=handle, mode="fast", calls=2)["status"] == "infra:bad_request"
    told = judge.good(op="device", device="host")
    assert told["name"] == "host" and told["free_bytes"] > 0
    if not torch.cuda.is_available():
        assert judge.ask(op="open", code=RELU, device="cuda")["status"] == "infra:device"
    assert judge.ask(op="open", code=RELU, device="tpu")["status"] == "infra:bad_request"
    on_host = judge.good(op="open", task="t", code=RELU)["handle"]
    assert judge.ask(op="timed", handle=on_host, calls=1, seed=1)["status"] == "infra:bad_request"
    judge.good(op="close", handle=handle)
    assert judge.ask(op="trial", handle=handle, index=0, seed=1)["status"] == "infra:bad_request"


# ---- tasks of the repository: the verdicts of both modes agree ----

def eager(task, trial):
    """What another sound implementation gives: the reference, its sums in another order where it has any."""
    return task._run(trial.inputs, trial.seed)[0]


def slipped(outputs):
    def slip(t):
        t = t.clone(memory_format=torch.contiguous_format)
        if t.numel() and t.is_floating_point():
            t.view(-1)[t.numel() // 2] += 0.5 * float(t.double().abs().nan_to_num(0, 0, 0).mean()) + 1e-3
        return t
    return tree_map(slip, outputs)


def test_repository_tasks(judge):
    """60 tasks: the reference's own result, taken from a host task on the same inputs, passes all trials; a slip fails."""
    from musaref.session import Task
    threads = torch.get_num_threads()
    torch.set_num_threads(1)              # as the runner: sums in the same order
    try:
        passed = _compare_modes(judge, Task)
    finally:
        torch.set_num_threads(threads)
    assert passed > 250, passed


def _compare_modes(judge, Task):
    passed = 0
    paths = sorted((ROOT / "tasks").glob("*/*.py"))
    for path in (paths[::2] + paths[1::2])[:60]:
        code = path.read_text()
        opened = judge.open(code)
        host = Task(code, path.stem, Options(scale="full"))
        for index in range(7):
            trial = host.trial(index, 50 + index)

            def candidate(*inputs, trial=trial, host=host):
                inputs = [x.clone() if isinstance(x, torch.Tensor) else x for x in inputs]
                for a, b in zip(inputs, trial.inputs, strict=True):      # the host draws the same values
                    assert not isinstance(a, torch.Tensor) or same(a, b.contiguous() if b.stride() != a.stride() else b)
                return host._run(trial.inputs, trial.seed)[0]
            result = judge.trial(opened["handle"], index, 50 + index, candidate)
            assert (result is None) == bool(trial.skipped), (path, index, trial.skipped)
            if result is None:
                continue
            if host.mutates:
                assert result["status"] == "cheating:input_mutation", (path, index, result)
                continue
            assert result["pass"], (path, index, result)
            passed += 1
            if index == 0 and not host.random:
                wrong = slipped(trial.expected.eager)
                there = judge.trial(opened["handle"], 0, 50, lambda *_, wrong=wrong: wrong)
                here = host.compare(0, wrong)
                for key in ("pass", "status", "mismatched", "total", "wrong", "nonfinite_mismatch", "allclose"):
                    assert there[key] == here[key], (path, key, there, here)
                if here["worst"] and isinstance(here["worst"]["ratio"], float):
                    assert there["worst"]["ratio"] == pytest.approx(here["worst"]["ratio"], rel=0.02), (path, there, here)
                    assert there["worst"]["index"] == here["worst"]["index"]
        judge.good(op="close", handle=opened["handle"])
    return passed


# ---- parts ----

def test_largest_error_by_tiles():
    g = torch.Generator().manual_seed(1)
    for n in (1, 7, 1999, 2000, 50_000):
        errors = torch.rand(n, dtype=torch.float64, generator=g)
        errors[n // 2] = 90.0
        if n > 100:
            errors[3], errors[4] = math.nan, math.inf
        top = Largest(n)
        for begin in range(0, n, 777):
            top.add(errors[begin:begin + 777])
        assert top.value() == pytest.approx(largest(errors), rel=1e-6), n
    exact = Largest(3000)
    exact.add(torch.zeros(3000, dtype=torch.float64))
    assert exact.value() == 0.0


def test_tiles_do_not_change_the_verdict(monkeypatch):
    from musaref.device import tiles
    monkeypatch.setattr(tiles, "HOST_TILE", 100)
    g = torch.Generator().manual_seed(2)
    gold = torch.randn(37, 29, dtype=torch.float64, generator=g)
    gold[3, 4], gold[5, 6] = math.nan, math.inf
    eager = gold.float()
    shaken = [gold * (1 + 1e-7 * torch.randn(gold.shape, dtype=torch.float64, generator=g))]
    naive = eager * (1 + 3e-7)
    here, there = Expected(eager, gold, shaken, 9, naive), DeviceExpected(eager, gold, shaken, 9, naive)
    a, b = here.leaves[0][2], there.leaves[0][2]
    assert b.rms == pytest.approx(a.rms, rel=1e-12) and b.allowed == pytest.approx(a.allowed, rel=1e-6) and b.floor == a.floor
    assert torch.allclose(a.budget().view(-1).nan_to_num(0, 0, 0), b.budget(0, b.gold, b.eager.double()).nan_to_num(0, 0, 0), rtol=1e-6)
    for got in (eager, eager * (1 + 1e-4), torch.where(torch.isnan(eager), 0.0, eager), eager.roll(1), -eager):
        one, other = compare(here, got), compare(there, got)
        for key in ("pass", "status", "mismatched", "total", "nonfinite_mismatch", "allclose", "wrong"):
            assert one[key] == other[key], (key, one, other)
        assert one["worst"]["index"] == other["worst"]["index"]


def test_gold_of_the_eager_result_is_wider(tmp_path):
    task = DeviceTask(source("def forward(self, x):\n    return (x @ x.t()).softmax(-1)"), "t", Options(scale="full", device="host"),
                      Context("cpu", str(tmp_path)))
    double = task.trial(0, 1).expected.leaves[0][2]
    task.double = False
    task.trials.clear()
    single = task.trial(0, 1)
    leaf = single.expected.leaves[0][2]
    assert single.gold == "float32" and leaf.alone and task.gold == "float32"
    assert leaf.floor == 2 * double.floor and double.allowed / 3 < leaf.allowed < 30 * double.allowed
    assert task.verdict(single, single.expected.eager)["pass"]
    assert not task.verdict(single, single.expected.eager.bfloat16().float())["pass"]


def test_naive_sums_in_the_device_memory_add_in_the_same_order(monkeypatch):
    from musaref.device import task as module
    from musaref.naive import NaiveSums
    x = torch.rand(33, 70, 5, generator=torch.Generator().manual_seed(3)) + 1
    for run in (lambda: x.sum(1), lambda: x.mean((0, 2), keepdim=True), lambda: x.softmax(1), lambda: x.sum(),
                lambda: torch.nn.functional.layer_norm(x, (70, 5)), lambda: x.cumsum(1)):
        with NaiveSums():
            want = run()
        with module.DeviceNaive():
            assert torch.equal(run(), want)
    monkeypatch.setattr(module, "NAIVE_ON_HOST", 0)
    with module.DeviceNaive():
        assert torch.equal(x.sum(1), NaiveSums().in_order(x, [1], False))
        assert torch.equal(x.sum((0, 2), keepdim=True), NaiveSums().in_order(x, [0, 2], True))
        monkeypatch.setattr(module, "NAIVE_STEPS", 69)
        with pytest.raises(module.NotCheap):
            x.sum(1)


def test_timed_calls_share_slots_where_memory_is_short(tmp_path, monkeypatch):
    from musaref.device import task as module
    context = Context("cpu", str(tmp_path))
    task = DeviceTask(source("def forward(self, x):\n    return x * 2", "[torch.rand(64, 1000)]"), "t",
                      Options(scale="full", device="host"), context)
    monkeypatch.setattr(module, "TIMED_SHARE", ((1 << 20) + 6 * 257_000) / context.total)
    reply = task.lay_timed(5, 3)
    laid = context.arena.owner
    assert laid.groups == 3 and len(reply["sets"]) == 2 and reply["outputs"][0] == reply["outputs"][3] != reply["outputs"][1]
    assert reply["seeds"] == [laid.seeds[0], laid.seeds[1]] * 2 + [laid.seeds[0]]

    def call(k, factor=2):
        x, _ = task.make_inputs("own", laid.seeds[k % 2])
        task._write(x, laid.inputs)
        slot = laid.slots[k][0][0]
        context.arena.view(slot, torch.float32).copy_((x[0] * factor).view(-1))
        return {"t": "tensor", "dtype": "float32", "shape": [64, 1000], "device": "cuda", "slot": 0}
    result = task.compare_timed([call(k) for k in range(5)])
    assert result["pass"] and result["compared"] == [0, 0, 64_000, 64_000, 64_000]
    task.lay_timed(5, 3)
    laid = context.arena.owner
    assert task.compare_timed([call(k, 2 if k != 2 else 3) for k in range(5)])["failed"] == 2
    context.arena.drop()


def test_trials_are_given_up_for_others(tmp_path, monkeypatch):
    from musaref.device import task as module
    context = Context("cpu", str(tmp_path))
    one, other = (DeviceTask(source(f"def forward(self, x):\n    return x * {k}"), "t", Options(scale="full", device="host"), context)
                  for k in (3, 5))
    one.trial(0, 1)
    size = sum(context.cached.values())
    monkeypatch.setattr(module, "CACHE_SHARE", 2.5 * size / context.total)
    other.trial(0, 1)
    assert len(one.trials) == 1 and len(context.cached) == 2
    other.trial(1, 1)
    assert not one.trials and not one.latest and len(other.trials) == 2
    context.relieve()
    assert not other.trials and other.trial(1, 1).expected is not None
    other.close()
    assert not context.cached


def test_large_inputs_are_made_again(tmp_path, monkeypatch):
    from musaref.device import task as module
    monkeypatch.setattr(module, "INPUTS_KEPT", 64)
    context = Context("cpu", str(tmp_path))
    task = DeviceTask(source("def forward(self, x):\n    return x * 3"), "t", Options(scale="full", device="host"), context)
    task.lay_trial(0, 5)
    trial = task.latest[0]
    first = trial.inputs[0].clone()
    booked = context.cached[(task, ("own", 5))]
    task.lay_trial(1, 6)
    assert trial.inputs is None and trial.expected is not None
    assert context.cached[(task, ("own", 5))] == booked - first.numel() * 4
    task.lay_trial(0, 5)
    assert task.latest[0] is trial and torch.equal(trial.inputs[0], first)


def test_inputs_that_no_seed_repeats_are_kept(tmp_path, monkeypatch):
    from musaref.device import task as module
    monkeypatch.setattr(module, "INPUTS_KEPT", 64)
    code = source("def forward(self, x):\n    return x * 3", inputs="[torch.full((40, 33), float(next(COUNT)))]",
                  constants="import itertools\nCOUNT = itertools.count(1)\n")
    task = DeviceTask(code, "t", Options(scale="full", device="host"), Context("cpu", str(tmp_path)))
    task.lay_trial(0, 5)
    task.lay_trial(0, 6)
    task.lay_trial(0, 5)                       # other values than the first time: another trial, right for them
    trial = task.latest[0]
    assert torch.equal(trial.expected.eager, trial.inputs[0] * 3)
    assert not task.repeats
    task.lay_trial(0, 7)
    assert trial.inputs is not None


def test_checksums_see_every_element_and_its_place(monkeypatch):
    from musaref.device import tiles
    monkeypatch.setattr(tiles, "WORDS", 50)
    monkeypatch.setattr(tiles, "_weights", {})
    g = torch.Generator().manual_seed(3)
    x = torch.randn(1003, generator=g)
    first = tiles.checksum([x, x[:7]])
    assert first == tiles.checksum([x.clone(), x[:7].clone()])
    seen = {first}
    for i in range(0, 1003, 17):
        y = x.clone()
        y[i] += 1e-6
        seen.add(tiles.checksum([y, x[:7]]))
    for i, j in ((0, 1), (0, 2), (3, 900), (1001, 1002)):
        y = x.clone()
        y[i], y[j] = x[j], x[i]
        seen.add(tiles.checksum([y, x[:7]]))
    assert len(seen) == 1 + 59 + 4
    assert tiles.checksum([x.view(17, 59), x[:7]]) not in seen
    assert tiles.checksum([]) != tiles.checksum([x[:0]])


def test_a_place_drawn_twice_has_one_value():
    from musaref.distributions import OUTLIER, sample
    x = sample("sparse_outliers", (3000,), torch.float32, torch.Generator().manual_seed(5))
    assert {OUTLIER, -OUTLIER} >= set(x[x.abs() >= OUTLIER / 2].tolist())
    many = sample("sparse_outliers", (4_000_000,), torch.float32, torch.Generator().manual_seed(5))
    signs = many[many.abs() == OUTLIER].sign()
    assert 3900 < signs.numel() <= 4000 and abs(float(signs.mean())) < 0.1
    # The same places in another order of writing.
    g = torch.Generator().manual_seed(6)
    where = torch.randint(0, 50, (400,), generator=g)
    sign = (where * 0x9E3779B1 >> 17 & 1) * 2 - 1
    forth, back = torch.zeros(50, dtype=torch.int64), torch.zeros(50, dtype=torch.int64)
    for k in range(400):
        forth[where[k]] = sign[k]
        back[where[399 - k]] = sign[399 - k]
    assert torch.equal(forth, back)


def test_timed_inputs_that_no_seed_repeats_blame_nobody(tmp_path):
    code = source("def forward(self, x):\n    return x * 3", inputs="[torch.full((40, 33), float(next(COUNT)))]",
                  constants="import itertools\nCOUNT = itertools.count(1)\n")
    context = Context("cpu", str(tmp_path))
    task = DeviceTask(code, "t", Options(scale="full", device="host"), context)
    reply = task.lay_timed(2, 5)
    laid, claims = context.arena.owner, []
    for k, node in enumerate(reply["sets"]):
        offset = node["items"][0]["arena"]
        slot, dtype = laid.slots[k][0]
        x = context.arena.range(offset, offset + slot.nbytes).view(torch.float32)
        context.arena.view(laid.inputs[0], torch.float32).copy_(x)
        context.arena.view(slot, dtype).copy_(x * 3)
        claims.append({"t": "tensor", "dtype": "float32", "shape": [40, 33], "strides": [33, 1], "device": "cuda", "slot": 0})
    compared = task.compare_timed(claims)
    assert not compared["pass"] and compared["status"] == "inconclusive:random"


def test_exact_results_hold_no_second_copy():
    x = torch.randn(50, 40)
    x[0, 0], x[1, 1] = math.nan, math.inf
    relu, triple = (DeviceExpected(y, gold) for y, gold in ((torch.relu(x), torch.relu(x.double())), (x * 3.1, x.double() * 3.1)))
    assert relu.leaves[0][2].gold is relu.leaves[0][2].eager and relu.bytes() == x.numel() * 4
    assert triple.leaves[0][2].gold.dtype == torch.float64
    for expected, y in ((relu, torch.relu(x)), (triple, x * 3.1)):
        assert compare(expected, y)["pass"]
        wrong = y.clone()
        wrong[7, 7] += 1e-3
        here, there = compare(expected, wrong), compare(Expected(y, y.double() if expected is relu else x.double() * 3.1), wrong)
        assert not here["pass"]
        for key in ("mismatched", "status"):
            assert here[key] == there[key]


def test_timed_results_need_no_values_of_the_model():
    x = torch.randn(50, 40)
    model = DeviceExpected(x * 3.1, x.double() * 3.1).without_values()
    assert all(t.is_meta for t in (model.eager,)) and model.leaves[0][2].gold is None
    y = torch.randn(50, 40) * 3.1
    expected = DeviceExpected.timed(y, model)
    assert compare(expected, y.clone())["pass"]
    assert not compare(expected, y + 1e-2)["pass"]


def test_full_memory_is_tried_once_more(tmp_path, monkeypatch):
    from musaref.server import Server
    server = Server(str(tmp_path))
    server.threads = torch.get_num_threads()

    def ask(**request):
        return server.answer(json.dumps(request).encode())
    handle = ask(op="open", code=RELU, device="host")["handle"]
    calls = []

    def short(self, index, seed, move=False):
        calls.append(index)
        if len(calls) < full:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return {"distribution": "own"}
    monkeypatch.setattr(DeviceTask, "lay_trial", short)
    full = 2
    assert ask(op="trial", handle=handle, index=0, seed=1)["ok"] and len(calls) == 2
    calls.clear()
    full = 9
    reply = ask(op="trial", handle=handle, index=0, seed=1)
    assert reply["status"] == "infra:device_memory" and len(calls) == 2


def test_plan_and_arena(tmp_path):
    arena, plan = Arena("cpu", str(tmp_path)), Plan(shift=3 * ALIGN)
    slots = [plan.add(n, f"input {i}") for i, n in enumerate((0, 1, 3, 513, 4096))]
    plan.close()
    arena.fit(plan.bytes)
    arena.poison(plan, slots)
    assert arena.damage(plan) == ""
    for slot in slots:
        assert slot.offset % ALIGN == 0
        for at, text in ((slot.offset + slot.nbytes, "past the end"), (slot.offset - 1, "before the start")):
            arena.range(0, arena.block.nbytes)[at] ^= 0xFF
            assert text in arena.damage(plan) and slot.label in arena.damage(plan)
            arena.range(0, arena.block.nbytes)[at] ^= 0xFF
    assert arena.damage(plan) == ""
    first = arena.node()
    arena.fit(first["bytes"] + 1)
    assert arena.node()["id"] == first["id"] + 1 and arena.held() > arena.block.nbytes
    arena.drop()
    assert arena.held() == 0 and os.listdir(tmp_path) == []


def test_digest_and_bytes():
    a = torch.arange(10_001, dtype=torch.int16)
    b = a.clone()
    assert digest([a]) == digest([b]) and same(a, b)
    b[10_000] += 1
    assert digest([a]) != digest([b]) and not same(a, b)
    swapped = a.clone()
    swapped[[0, 4]] = swapped[[4, 0]]
    assert digest([a]) != digest([swapped])
    assert digest([a, b]) != digest([b, a]) and digest([torch.empty(0)]) == digest([torch.empty(0)])
    nan = torch.tensor([math.nan, -0.0])
    assert same(nan, nan.clone()) and not same(nan, torch.tensor([math.nan, 0.0]))
    x = torch.rand(6, 8)
    assert same(x.t(), x.clone().t()) and same(x[:, ::2], x[:, ::2].clone()) and memory(x[1:3, 1:3]).numel() == 10


def test_tensors_go_to_the_device():
    """Shown with meta tensors, the one other device that is always there."""
    class OnMeta(OnDevice):
        def elsewhere(self, t):
            return isinstance(t, torch.Tensor) and t.device.type == "cpu"
    import numpy
    with OnMeta("meta"):
        assert torch.zeros(3).is_meta and torch.rand(3, device="cuda").is_meta and torch.ones(2, device="cpu").is_meta
        assert torch.as_tensor(numpy.ones(3)).is_meta and torch.tensor([1, 2]).is_meta
        x = torch.empty(3)
        assert x.cpu() is x and x.cuda() is x and x.to("cuda:0").is_meta and x.to(torch.device("cpu"), torch.float64).is_meta
        assert torch.rand(3, generator=torch.Generator().manual_seed(1)).is_meta


def test_errors_of_a_device_have_names():
    def status(error):
        return classify(error, "forward").status
    assert status(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")) == "infra:device_memory"
    assert status(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")) == "infra:device_memory"
    assert status(torch.AcceleratorError("CUDA error: an illegal memory access was encountered", 700)
                  if _takes_code() else RuntimeError("CUDA error: an illegal memory access was encountered")) == "infra:device"
    assert status(RuntimeError("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasGemmEx`")) == "invalid_task:exception"
    assert status(RuntimeError("shapes do not match")) == "invalid_task:exception"
    assert isinstance(classify(TaskError("infra:x", "y"), "z"), TaskError)


def _takes_code():
    try:
        torch.AcceleratorError("x", 1)
    except TypeError:
        return False
    return True


# ---- the timed loop, on the host's clock ----

class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_timed_loop_order_and_times():
    clock, log = Clock(), []

    def call():
        log.append("call")
        clock.now += 0.004
        return 17

    def restore():
        log.append("restore")
        clock.now += 5
    loop = TimedLoop(1024, device="cpu", clock=clock)
    assert loop.run([(restore, call, lambda out: log.append(out)), (None, call, None)]) == [pytest.approx(4.0)] * 2
    assert log == ["restore", "call", 17, "call"]
    assert loop.buffer.numel() == 1024


def test_timed_loop_warms_until_stable_or_the_cap():
    clock = Clock()
    durations = iter([1.0, 0.5, 0.2, 0.1, 0.1, 0.101, 0.1])

    def call():
        clock.now += next(durations)
    first, calls = TimedLoop(0, device="cpu", clock=clock).warm(call, cap_s=60)
    assert first == pytest.approx(1000) and calls == 6

    def never_stable():
        clock.now += 0.1 * (1 + clock.now % 7)
    began = clock.now
    _, calls = TimedLoop(0, device="cpu", clock=clock).warm(never_stable, cap_s=2)
    assert calls >= 1 and clock.now - began < 4

    def slow():
        clock.now += 10
    assert TimedLoop(0, device="cpu", clock=clock).warm(slow, cap_s=2, restore=lambda: None) == (pytest.approx(10_000), 1)


def test_timed_loop_marks_its_own_work():
    import contextlib
    inside, seen = [0], []

    @contextlib.contextmanager
    def internal():
        inside[0] += 1
        yield
        inside[0] -= 1
    loop = TimedLoop(16, device="cpu", internal=internal)
    loop.run([(lambda: seen.append(inside[0]), lambda: seen.append(inside[0]), lambda _: seen.append(inside[0]))])
    assert seen == [1, 0, 1]
    assert json.dumps(loop.run([])) == "[]"
