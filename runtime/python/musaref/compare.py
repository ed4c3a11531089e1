"""The verdict over one set of outputs: structure, shapes and dtypes strictly, values within their budget.

    verdict = compare(expected, outputs)     # expected: session.Trial.expected
    verdict["pass"], verdict["status"], verdict["worst"]

Structure: as many outputs as the reference, nested alike. A list may stand for a tuple and the other way round, since the
binding of a C++ function chooses between them; nothing else is forgiven.
"""

import math

import torch

from .tolerance import ALLCLOSE, Bounds, Leaf, real
from .tree import OnCpu, dtype_name, number


class Expected:
    """The reference's result: the eager tree with a `Leaf` for every floating tensor (by path order)."""

    leaf_type = Leaf

    def __init__(self, eager, gold, shaken=(), terms=0, naive=None):
        self.eager = eager
        count = len(shaken)
        pairs = list(_walk(eager, gold, *shaken, *([] if naive is None else [naive])))
        self.leaves = [(path, e, self.leaf_type(e, g, s[:count], terms, s[count] if naive is not None else None)
                        if _floating(e) and _floating(g) and g.shape == e.shape else g) for path, (e, g, *s) in pairs]

    # How tensors of equal shape and dtype are compared.

    def floats(self, leaf, got):
        return _floats(leaf, got)

    def exact(self, eager, gold, got):
        return _exact(eager, gold, got)

    def allclose(self, outputs):
        return allclose(self.eager, outputs)


def _floating(value):
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def _walk(*trees, path=""):
    """Yields (path, leaves) of trees with equal structure."""
    first = trees[0]
    if isinstance(first, dict):
        for key in first:
            yield from _walk(*(t[key] for t in trees), path=f"{path}[{key!r}]")
    elif isinstance(first, (list, tuple)) and not isinstance(first, torch.Size):
        for i, _ in enumerate(first):
            yield from _walk(*(t[i] for t in trees), path=f"{path}[{i}]")
    else:
        yield path, trees


def _kind(value):
    if isinstance(value, (torch.Tensor, OnCpu)):
        return "a tensor"
    if isinstance(value, dict):
        return f"an object of type {value.get('type')}" if value.get("t") == "other" else f"a dict with keys {sorted(value)}"
    if isinstance(value, (list, tuple)):
        return f"a {type(value).__name__} of {len(value)}"
    return "None" if value is None else f"{type(value).__name__} {value!r}"


def structure(expected, got, path="output"):
    """None when alike, else a sentence."""
    if isinstance(expected, torch.Tensor):
        return None if isinstance(got, (torch.Tensor, OnCpu)) else f"{path} is {_kind(got)}, the reference returns a tensor"
    if isinstance(expected, dict):
        if not isinstance(got, dict) or list(map(str, expected)) != list(got) and set(map(str, expected)) != set(got):
            return f"{path} is {_kind(got)}, the reference returns {_kind(expected)}"
        return next((m for k in expected if (m := structure(expected[k], got[str(k)], f"{path}[{k!r}]"))), None)
    if isinstance(expected, (list, tuple)):
        if not isinstance(got, (list, tuple)) or len(got) != len(expected):
            return f"{path} is {_kind(got)}, the reference returns {_kind(expected)}"
        return next((m for i, e in enumerate(expected) if (m := structure(e, got[i], f"{path}[{i}]"))), None)
    if isinstance(got, (torch.Tensor, OnCpu, list, tuple)) or (got is None) != (expected is None):
        return f"{path} is {_kind(got)}, the reference returns {_kind(expected)}"
    return None


def _index(flat, shape):
    out = []
    for size in reversed(shape):
        out.append(flat % size if size else 0)
        flat = flat // size if size else 0
    return list(reversed(out))


def _floats(leaf, got):
    """(mismatched, nonfinite mismatches, worst) of one floating output; worst = (ratio, flat, expected, got, error, budget)."""
    g = real(got).double()
    error = torch.minimum((g - leaf.gold).abs(), (g - leaf.eager.double()).abs())
    budget = leaf.budget()
    special = ~torch.isfinite(leaf.gold) | ~torch.isfinite(leaf.eager.double()) | ~torch.isfinite(g)
    ratio = torch.where(error == 0, torch.zeros((), dtype=torch.float64), error / budget)
    nonfinite = 0
    if bool(special.any()):
        same = _same_special(g, leaf.gold) | _same_special(g, leaf.eager.double())
        near = torch.isfinite(g) & (ratio <= 1)     # finite, and near whichever side is finite
        wrong = special & ~(same | near)
        nonfinite = int(wrong.sum())
        ratio = torch.where(special, torch.where(wrong, math.inf, 0.0), ratio)
    flat = int(ratio.argmax())
    worst = (float(ratio.reshape(-1)[flat]), flat, float(leaf.gold.reshape(-1)[flat]), float(g.reshape(-1)[flat]),
             float((g - leaf.gold).abs().reshape(-1)[flat]), float(budget.reshape(-1)[flat]))
    return int((ratio > 1).sum()), nonfinite, worst


def _same_special(a, b):
    return (torch.isnan(a) & torch.isnan(b)) | (torch.isinf(a) & (a == b))


def _close(got, eager, limit):
    wide = torch.complex128 if eager.is_complex() else torch.float64
    return torch.allclose(got.to(wide), eager.to(wide), rtol=limit, atol=limit)


def allclose(eager, got, close=_close, equal=torch.equal):
    """(passes, atol, rtol) of KernelBench's rule over all outputs; `close` and `equal` compare two tensors."""
    ok, tolerance = True, 1e-4
    for _, (e, g) in _walk(eager, got):
        if not isinstance(e, torch.Tensor):
            continue
        if not isinstance(g, torch.Tensor) or g.shape != e.shape:
            return False, tolerance, tolerance
        limit = ALLCLOSE.get(e.dtype, 1e-4)
        tolerance = max(tolerance, limit)
        ok = ok and (close(g, e, limit) if _floating(e) else equal(g.to(e.dtype), e))
    return ok, tolerance, tolerance


def _result(status, message="", **more):
    return {"pass": status == "ok", "status": status, "message": message, "worst": None, "wrong": [], "mismatched": 0, "total": 0,
            "nonfinite_mismatch": 0, "allclose": False, "atol": 1e-4, "rtol": 1e-4, **more}


def form(expected, outputs):
    """The reply where structure, place, shapes or dtypes are wrong, without a look at any value; else None."""
    problem = structure(expected.eager, outputs)
    if problem:
        return _result("correctness_error:arity", problem)
    for (path, (e, g)) in _walk(expected.eager, outputs):
        name = f"output{path}"
        if not isinstance(e, torch.Tensor):
            continue
        if isinstance(g, OnCpu):
            return _result("correctness_error:device", f"{name} lies on the CPU, the inputs were on the device")
        if g.shape != e.shape:
            return _result("correctness_error:shape", f"{name} has shape {list(g.shape)}, the reference {list(e.shape)}")
        if g.dtype != e.dtype:
            return _result("correctness_error:dtype",
                           f"{name} has dtype {dtype_name(g.dtype)}, the reference {dtype_name(e.dtype)}")
    return None


def compare(expected, outputs):
    """A dict with the keys of the `compare` reply. Does not look at the inputs."""
    result = form(expected, outputs)
    if result is not None:
        return result
    pairs = list(_walk(expected.eager, outputs))
    mismatched = total = nonfinite = 0
    wrong = []
    worst, worst_at, n_tensor = None, None, 0
    for (path, (e, g)), (_, _, leaf) in zip(pairs, expected.leaves, strict=False):
        if not isinstance(e, torch.Tensor):
            total += 1
            if not _same_scalar(e, g) and not _same_scalar(leaf, g):
                mismatched += 1
                wrong.append(path)
                worst, worst_at = (math.inf, 0, _as_float(e), _as_float(g), math.inf, 0.0), (n_tensor, path, [])
            n_tensor += 1
            continue
        total += e.numel()
        if e.numel():
            if isinstance(leaf, Bounds):
                bad, special, found = expected.floats(leaf, g)
            else:
                bad, special, found = expected.exact(e, leaf, g)
            mismatched += bad
            nonfinite += special
            if bad:
                wrong.append(path)
            if worst is None or found[0] > worst[0]:
                flat = found[1] // 2 if e.is_complex() else found[1]
                worst, worst_at = found, (n_tensor, path, _index(flat, e.shape))
        n_tensor += 1
    close, atol, rtol = expected.allclose(outputs)
    report = None
    if worst is not None:
        ratio, _, want, got, error, budget = worst
        report = {"output": worst_at[0], "index": worst_at[2], "expected": number(want), "got": number(got),
                  "error": number(error), "budget": number(budget), "ratio": number(ratio)}
    message = ""
    if mismatched:
        share = 100.0 * mismatched / max(1, total)
        at = "".join(f"[{i}]" for i in worst_at[2])
        message = (f"{mismatched} of {total} elements ({share:.3g} %) outside the error budget; worst at "
                   f"output{worst_at[1]}{at}: got {worst[3]:.9g}, expected {worst[2]:.9g}")
        if nonfinite:
            message += f"; {nonfinite} NaN or infinity out of place"
    return _result("correctness_error:values" if mismatched else "ok", message, worst=report, wrong=wrong, mismatched=mismatched,
                   total=total, nonfinite_mismatch=nonfinite, allclose=close, atol=atol, rtol=rtol)


def _exact(eager, gold, got):
    """Integers and booleans: what gold or eager gives (they may differ where a comparison is a tie in one of them)."""
    bad = got != eager
    if isinstance(gold, torch.Tensor) and gold.shape == eager.shape:
        bad = bad & (got.to(gold.dtype) != gold)
    flat = int(bad.reshape(-1).to(torch.uint8).argmax())
    want, have = float(eager.reshape(-1)[flat]), float(got.reshape(-1)[flat])
    wrong = int(bad.sum())
    return wrong, 0, (math.inf if wrong else 0.0, flat, want, have, abs(have - want), 0.0)


def _as_float(value):
    return float(value) if isinstance(value, (int, float, bool)) else math.nan


def _same_scalar(expected, got):
    if isinstance(expected, float) and isinstance(got, (int, float)):
        return expected == got or (math.isnan(expected) and math.isnan(got)) or math.isclose(expected, got, rel_tol=1e-5)
    if isinstance(expected, (int, bool)) and isinstance(got, (int, float)):
        return expected == got
    return expected is got or expected == got or not isinstance(expected, (int, float, str, type(None)))


def bitwise_equal(a, b):
    """Same shape, dtype and bytes (NaNs included)."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.numel() == 0:
        return True
    x, y = a.detach().contiguous().reshape(-1), b.detach().contiguous().reshape(-1)
    return bool(torch.equal(x.view(torch.uint8), y.view(torch.uint8)))
