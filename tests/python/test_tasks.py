"""The tasks in tasks/: each loads, runs in float32 and float64, is finite, deterministic and not trivially solved.

Run: pytest tests/python/test_tasks.py
"""

import ast
import copy
import pathlib

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOMAINS = ("activation", "maths", "comparison_logic", "layout", "reduction", "nn_layers", "interpolation_cast")
TASKS = sorted((ROOT / "tasks").glob("*/*.py"))
MAX_INPUT_BYTES = 1 << 18


def load(path):
    namespace = {"__name__": "task"}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), namespace)
    return namespace


def run(namespace, dtype=None, seed=7):
    torch.manual_seed(seed)
    model = namespace["Model"](*namespace["get_init_inputs"]())
    torch.manual_seed(seed)
    inputs = namespace["get_inputs"]()
    if dtype is not None:
        model = copy.deepcopy(model).to(dtype)
        inputs = [
            x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in inputs
        ]
    with torch.no_grad():
        output = model(*inputs)
    return inputs, list(output) if isinstance(output, (tuple, list)) else [output]


def close(a, b):
    if a.shape != b.shape:
        return False
    coarse = torch.float16 in (a.dtype, b.dtype) or torch.bfloat16 in (a.dtype, b.dtype)
    return torch.allclose(a.double(), b.double(), rtol=1e-2 if coarse else 1e-3, atol=1e-5)


@pytest.fixture(params=TASKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def task(request):
    return request.param


def test_there_are_enough():
    assert {path.parent.name for path in TASKS} == set(DOMAINS)
    assert len(TASKS) >= 66
    assert {path.name[0] for path in TASKS} == {"1", "2", "3"}


def test_describes_itself(task):
    tree = ast.parse(task.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), "a task starts with a docstring: what it computes, and the shapes"


def test_runs_finite_and_deterministic(task):
    namespace = load(task)
    inputs, outputs = run(namespace)
    assert sum(x.nbytes for x in inputs if isinstance(x, torch.Tensor)) <= MAX_INPUT_BYTES
    _, again = run(namespace)
    for first, second in zip(outputs, again, strict=True):
        assert isinstance(first, torch.Tensor)
        assert torch.equal(first, second)
        if first.is_floating_point():
            assert torch.isfinite(first).all()


def test_runs_in_float64(task):
    namespace = load(task)
    _, outputs = run(namespace)
    _, gold = run(namespace, torch.float64)
    for output, exact in zip(outputs, gold, strict=True):
        assert output.shape == exact.shape
        if exact.is_floating_point():
            assert exact.dtype in (torch.float64, output.dtype)
            scale = exact.abs().max().item() + 1e-6
            limit = {torch.float16: 2e-2, torch.bfloat16: 5e-2}.get(output.dtype, 1e-4)
            assert (output.double() - exact).abs().max().item() <= limit * scale


def test_reads_its_inputs(task):
    namespace = load(task)
    _, outputs = run(namespace, seed=7)
    _, others = run(namespace, seed=8)
    assert any(not close(a, b) for a, b in zip(outputs, others, strict=True))


def test_is_not_trivial(task):
    inputs, outputs = run(load(task))
    first = inputs[0]
    mean = first.double().mean()
    answers = {
        "zeros": [torch.zeros_like(x) for x in outputs],
        "ones": [torch.ones_like(x) for x in outputs],
        "mean of the input": [torch.full(x.shape, mean.item(), dtype=torch.float64) for x in outputs],
        "own mean": [torch.full(x.shape, x.double().mean().item(), dtype=torch.float64) for x in outputs],
        "first input": [first for _ in outputs],
    }
    for name, answer in answers.items():
        if name == "own mean" and all(x.numel() == 1 for x in outputs):
            continue  # one number always equals its own mean; other seeds refute the constant
        assert not all(close(a, b) for a, b in zip(answer, outputs, strict=True)), name
