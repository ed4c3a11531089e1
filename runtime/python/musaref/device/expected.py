"""Expected values on the device, and the verdict over tensors of any size: the rules of compare.py and tolerance.py by tiles.

    expected = DeviceExpected(eager, gold, shaken, terms, naive)     # as compare.Expected
    compare(expected, outputs)

`gold` may be the eager tree itself: then nothing better is known, and the budget is widened as tolerance.py says.
"""

import math

import torch

from ..compare import Expected, _floating, _walk, allclose
from ..tolerance import GOLD_ALONE, GOLD_EAGER, HONEST, SMALLEST_SCALE, Bounds, real
from ..tree import tree_map
from .tiles import Largest, flat, root_mean_square, same, same_memory, tile_of, tiles

QUICK_TILE = 1 << 23       # small enough for what is made of a tile to stay in the L2 cache
ROUND_UP = 1 + 2.0**-22    # the local error is kept as float32, never smaller than it is


class DeviceLeaf(Bounds):
    """One floating output. `eager` [n] in the task's dtype and `gold` [n] in float64 (or `eager` itself) are flat."""

    def __init__(self, eager, gold, shaken=(), terms=0, naive=None):
        super().__init__(eager.dtype)
        self.alone = gold is eager
        self.eager = flat(real(eager))
        self.gold = self.eager if self.alone else flat(real(gold)).double()
        if not self.alone and _exact(self.eager, self.gold):   # half the memory, and no error to look for
            self.gold = self.eager
        self.rms, self.gold_finite = root_mean_square(self.gold)
        self.eager_finite = self.gold_finite if self.gold is self.eager else all(bool(torch.isfinite(e).all()) for _, (e,) in tiles(self.eager))
        # Each element's own honest error, absolute. Kept only where it is not simply |eager - gold|.
        more = [*shaken, *([] if naive is None else [naive])]
        self.local = torch.zeros(self.gold.shape, dtype=torch.float32, device=self.gold.device) if more else None
        others = [*([] if self.gold is self.eager else [eager]), *shaken]
        self.allow(max((self._error(other) for other in others), default=0.0), 0.0 if naive is None else self._error(naive), terms)
        if self.alone:
            self.allowed *= GOLD_EAGER
            self.floor *= GOLD_EAGER if shaken else GOLD_ALONE

    @classmethod
    def like(cls, eager, other):
        """A leaf for other inputs of the same task: gold is `eager`, the budget that of `other` and eager's own error."""
        leaf = cls.__new__(cls)
        Bounds.__init__(leaf, eager.dtype)
        leaf.alone, leaf.local = True, None
        leaf.eager = leaf.gold = flat(real(eager))
        leaf.rms, leaf.gold_finite, leaf.eager_finite = other.rms, other.gold_finite, other.eager_finite
        leaf.relative, leaf.allowed, leaf.floor = other.relative, other.allowed + other.relative, other.floor
        return leaf

    def without_values(self):
        """The budget alone."""
        leaf = DeviceLeaf.__new__(DeviceLeaf)
        leaf.__dict__.update(vars(self), eager=None, gold=None, local=None)
        return leaf

    def _scale(self, gold):
        return gold.abs().nan_to_num_(0, 0, 0).add_(max(self.rms, SMALLEST_SCALE))

    def _error(self, other):
        top = Largest(self.gold.numel())
        for start, (o, g) in tiles(flat(real(other)), self.gold):
            g = g.double()
            error = (o.double() - g).abs_()
            if self.local is not None:
                local = self.local[start:start + g.numel()]
                torch.maximum(local, error.nan_to_num(0, 0, 0).mul_(ROUND_UP).float(), out=local)
            top.add(error / self._scale(g))
        return top.value() if self.gold.numel() else 0.0

    def budget(self, start, gold, eager):
        """The budget of the tile at `start`, whose float64 `gold` and `eager` are given."""
        usual = self._scale(gold).mul_(self.allowed + self.floor if self.rms > 0 else self.allowed)
        if self.local is not None:
            return torch.maximum(usual, self.local[start:start + gold.numel()].double().mul_(HONEST[self.dtype]))
        if self.alone:
            return usual
        return torch.maximum(usual, (eager - gold).abs_().nan_to_num_(0, 0, 0).mul_(HONEST[self.dtype]))

    def compare(self, got):
        """(mismatched, nonfinite mismatches, worst) as compare._floats; waits for the device once."""
        got = flat(real(got))
        index = self._quickly(got)
        if index is not None:
            g, gold, eager = (t[index:index + 1].double() for t in (got, self.gold, self.eager))
            error, budget = torch.minimum((g - gold).abs(), (g - eager).abs()), self.budget(index, gold, eager)
            values = torch.cat([torch.where(error == 0, 0.0, error / budget), gold, g, (g - gold).abs(), budget]).tolist()
            return 0, 0, (values[0], index, *values[1:])
        counts = torch.zeros(2, dtype=torch.int64, device=got.device)
        tops = []
        for start, (g, gold, eager) in tiles(got, self.gold, self.eager):
            ratio, wrong = self._ratio(start, g.double(), gold.double(), None if self.alone else eager.double())
            counts[0] += (ratio > 1).sum()
            counts[1] += wrong.sum()
            top = ratio.max(0)
            tops.append(torch.stack([top.values, (top.indices + start).double()]))
        ratio, index = max(torch.stack(tops).tolist(), key=lambda pair: pair[0])
        mismatched, nonfinite = counts.tolist()
        index = int(index)
        g, gold, eager = (t[index:index + 1].double() for t in (got, self.gold, self.eager))
        values = torch.cat([gold, g, (g - gold).abs(), self.budget(index, gold, eager)]).tolist()
        return mismatched, nonfinite, (ratio, index, *values)

    def _quickly(self, got):
        """The index of an element with (nearly) the largest error where every element passes for certain, else None.

        Equal to eager is no error at all. Else: an error is the smaller of those against gold and eager, so |got - eager| within
        half of the usual budget at |eager| suffices. Where |gold| + rms is less than half of |eager| + rms, eager is off by more
        than that, and the budget is HONEST times as much. One pass in the tensors' own precision; NaN and infinity decide nothing.
        """
        if got.dtype == self.eager.dtype and same_memory(got, self.eager):
            return 0
        share = 0.5 * (self.allowed + self.floor)
        if not (self.rms > 0 and 0 < share < 0.25):
            return None
        tops = []
        precise = torch.float64 if self.eager.dtype == torch.float64 else torch.float32
        for start, (g, e) in tiles(got, self.eager, tile=min(QUICK_TILE, tile_of(got.device))):
            e = e.to(precise)
            limit = e.abs().add_(self.rms).mul_(share)
            top = (g.to(precise) - e).abs_().div_(limit).max(0)
            tops.append(torch.stack([top.values.double(), (top.indices + start).double()]))
        tops = torch.stack(tops)
        ratio, index = tops[tops[:, 0].argmax()].tolist()      # argmax finds a NaN first
        return int(index) if ratio <= 1 else None

    def _ratio(self, start, g, gold, eager):
        """(error in units of the budget, NaN or infinity out of place) of a tile; `eager` is None where gold is eager."""
        error = (g - gold).abs_()
        special = ~(torch.isfinite(gold) & torch.isfinite(g))
        if eager is not None:
            error = torch.minimum(error, (g - eager).abs_())
            special |= ~torch.isfinite(eager)
        ratio = torch.where(error == 0, 0.0, error / self.budget(start, gold, eager))
        same_special = _same_special(g, gold) if eager is None else _same_special(g, gold) | _same_special(g, eager)
        wrong = special & ~(same_special | (torch.isfinite(g) & (ratio <= 1)))
        return torch.where(special, torch.where(wrong, math.inf, 0.0), ratio), wrong

    def bytes(self):
        held = {t.data_ptr(): t.numel() * t.element_size() for t in (self.eager, self.gold, self.local) if t is not None}
        return sum(held.values())


def _exact(eager, gold):
    """Whether eager is gold, to the last bit; most are not in the first tile."""
    return all(bool(((e == g) | (torch.isnan(e) & torch.isnan(g))).all()) for _, (e, g) in tiles(eager, gold, tile=QUICK_TILE))


def _same_special(a, b):
    return (torch.isnan(a) & torch.isnan(b)) | (torch.isinf(a) & (a == b))


def _close(got, eager, limit):
    if eager.is_complex():
        return all(torch.allclose(g.to(torch.complex128), e.to(torch.complex128), rtol=limit, atol=limit) for _, (g, e) in tiles(got, eager))
    far = torch.zeros((), dtype=torch.bool, device=eager.device)
    for _, (g, e) in tiles(got, eager):
        g, e = g.double(), e.double()
        off = g - e
        far |= ((off.abs() > e.abs().mul_(limit).add_(limit)) | ~torch.isfinite(off) & (g != e)).any()
    return not bool(far)


class DeviceExpected(Expected):
    leaf_type = DeviceLeaf

    def __init__(self, eager, gold, shaken=(), terms=0, naive=None):
        super().__init__(eager, gold, shaken, terms, naive)
        self.leaves = [(path, e, e if isinstance(g, torch.Tensor) and isinstance(e, torch.Tensor) and g is not e and same(e, g) else g)
                       for path, e, g in self.leaves]

    @classmethod
    def timed(cls, eager, model):
        """Expected values of a timed call: what the reference gives, with the budget of `model` (a trial's)."""
        made = _Timed.__new__(_Timed)
        made.eager = eager
        made.leaves = [(path, e, DeviceLeaf.like(e, other) if isinstance(other, Bounds) and _floating(e) else e)
                       for (path, (e,)), (_, _, other) in zip(_walk(eager), model.leaves, strict=True)]
        return made

    def without_values(self):
        """Structure, shapes, dtypes and budgets of this, for `timed` and `compare.form`; no memory of the device is held."""
        def shape_only(t):
            return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta")
        made = DeviceExpected.__new__(DeviceExpected)
        made.eager = tree_map(shape_only, self.eager)
        made.leaves = [(path, tree_map(shape_only, e), leaf.without_values() if isinstance(leaf, Bounds) else tree_map(shape_only, leaf))
                       for path, e, leaf in self.leaves]
        return made

    def floats(self, leaf, got):
        return leaf.compare(got)

    def exact(self, eager, gold, got):
        beside = [gold] if isinstance(gold, torch.Tensor) and gold is not eager and gold.shape == eager.shape else []
        found = []
        for start, (g, e, *more) in tiles(got, eager, *beside):
            bad = g != e
            for other in more:
                bad &= g.to(other.dtype) != other
            found.append(torch.stack([bad.sum(), bad.to(torch.uint8).argmax() + start]))
        found = torch.stack(found).tolist()
        wrong = sum(count for count, _ in found)
        index = next((at for count, at in found if count), 0)
        want, have = (float(flat(t)[index]) for t in (eager, got))
        return wrong, 0, (math.inf if wrong else 0.0, index, want, have, abs(have - want), 0.0)

    def allclose(self, outputs):
        return allclose(self.eager, outputs, _close, same)

    def bytes(self):
        total = sum(leaf.bytes() for _, _, leaf in self.leaves if isinstance(leaf, Bounds))
        plain = {t.data_ptr(): t.numel() * t.element_size() for _, e, leaf in self.leaves if not isinstance(leaf, Bounds)
                 for t in (e, leaf) if isinstance(t, torch.Tensor)}
        return total + sum(plain.values())


class _Timed(DeviceExpected):
    """Speed counts: KernelBench's rule is told for trials only."""

    def allclose(self, outputs):
        return False, 1e-4, 1e-4
