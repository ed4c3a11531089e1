"""Every constant of the numerical verdict, in one place, with its reason.

An element of a floating output passes when it lies within `budget` of the float64 gold value, or of the value that torch
itself computes eagerly in the task's dtype:

    budget = (max(HONEST · h, NAIVE · n)  +  (FLOOR + SUM · √terms) · eps) · (|gold| + rms)

* `h` is the operation's own honest error in units of |gold| + rms, measured, not assumed: the largest error of the eager
  result against gold, and of gold itself when it is shaken: once every input and parameter times 1 ± eps/2, at random; once
  every operator's result times 1 ± eps, one sign an operator. The first sees the rounding inside the operations, the others how much the task
  amplifies rounding that no implementation can avoid (a variance of nearly equal numbers, a cancellation, a deep network).
  A few outliers (one element in `OUTLIERS`) are capped, so that a comparison or a rounding that flips by luck does not
  loosen the budget of all others.
  Where an outlier is, its own error counts in full for that one element: budget ≥ HONEST · error there. A saturating
  function behind a cancellation has such elements (tanh(x xᵀ): large arguments nearly everywhere, sensitive ones few).
* `n` is the error of the reference with its sums taken one float32 addition after the other (`naive`): running sums of
  nearly equal terms are rounded to the same side again and again, by an amount that only the values themselves tell.
* `terms` counts the numbers that are added up on the way to one result (K of a product, the length of a sum).
* `rms` is the root mean square of the output: sums with cancellation have errors of the size of their terms, not of
  their result.

Why these numbers (measured by bench/task/tolerance_study.py over KernelBench tasks and all distributions):
* Adding n numbers one after the other in float32 gives a relative error of about 0.14 · eps · √n (terms of random sign,
  relative to the rms of the sum) or 0.12 · eps · √n (equal signs), and the worst of 100 000 such sums is 4.4 times that:
  0.6 · eps · √n. torch sums in blocks or in float64 and has far less. SUM = 1.5 is the first with a factor of two to spare.
* NAIVE = 3: the naive loop itself, in another order inside a row or with fused multiply-adds.
* HONEST = 20: other orders of summation, other but sound formulas.
* FLOOR = 32: `__expf`, `__sinf`, `__logf`, `__fdividef` are off by 2 to some 20 units in the last place of values of order
  one; this covers them where eager is exact. `tanh.approx` (relative error 2^-11) has half precision and does not pass.
* With these, naive sequential loops reach at most about half of the budget, loops in 32 lanes and fast-math functions a tenth.
  Operands rounded to TF32 or half miss it by a factor of 10 and more, bfloat16 by 90 and more, results rounded to half and
  errors of 0.1 % in single elements by 2 and 5 where the task is a mean over much, else by 20 and more.
* Where gold in float64 would not fit or would take too long (real hardware, full sizes), gold is the eager result itself, and h
  comes from running it once more with every input and parameter times 1 ± eps, at random: that shows how much the task
  amplifies rounding, and the rounding of both runs. What it cannot show is an error that both runs share, so GOLD_EAGER = 2
  widens allowed and floor: the candidate's distance from gold is at most its own error and gold's, each within the usual
  budget. Where not even the second run is possible, GOLD_ALONE = 8 stands in for h.
* In half precision the result itself is rounded to eps/2 and intermediate results once or twice more: FLOOR = 2.
"""

import torch

EPS = {torch.float64: 2.0**-52, torch.float32: 2.0**-23, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}
HONEST = {torch.float64: 20.0, torch.float32: 20.0, torch.float16: 4.0, torch.bfloat16: 4.0}
NAIVE = 3.0
FLOOR = {torch.float64: 64.0, torch.float32: 32.0, torch.float16: 2.0, torch.bfloat16: 2.0}
SUM = {torch.float64: 1.5, torch.float32: 1.5, torch.float16: 0.0, torch.bfloat16: 0.0}  # half types are summed in float32
SMALLEST_SCALE = 1e-200     # stands for the rms of a result that is zero everywhere, so that errors can be relative to it
OUTLIERS = 2000             # one element in this many may be an outlier in h: a comparison or a rounding that flipped by luck
FLIP = 1e-3                 # a relative error above this, where nearly all other elements are exact, is no rounding
OUTLIER_CAP = 10.0          # what such an outlier counts for, as a multiple of the largest other error
ILL_CONDITIONED = 0.04      # a trial whose HONEST·h exceeds this share of the scale says nothing and is skipped
SHAKE_SECONDS = 1.0         # no shaking and no naive sums where one float64 run takes longer (the largest networks)
GOLD_EAGER = 2.0            # where gold is the eager result: it is off as much as a candidate may be
GOLD_ALONE = 8.0            # the same where nothing is known about h

# KernelBench's own rule, reported beside the verdict: allclose against the eager result with atol = rtol.
ALLCLOSE = {torch.float64: 1e-4, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 1e-2}


def real(t):
    """Complex values as pairs of reals; everything else as it is."""
    return torch.view_as_real(t.resolve_conj()) if t.is_complex() else t


def real_dtype(dtype):
    return {torch.complex64: torch.float32, torch.complex128: torch.float64}.get(dtype, dtype)


def largest(errors):
    """The largest finite error; outliers (one in OUTLIERS) count for at most OUTLIER_CAP times the largest of the rest."""
    errors = errors.reshape(-1)
    errors = errors[torch.isfinite(errors)]
    if errors.numel() == 0:
        return 0.0
    skip = errors.numel() // OUTLIERS
    top = torch.topk(errors, skip + 1).values
    rest = float(top[-1])
    worst = float(top[0])
    if rest == 0:  # nearly everything is exact: what is left is rounding when it is small, else it flipped
        return worst if worst < FLIP else 0.0
    return min(worst, OUTLIER_CAP * rest)


class Bounds:
    """How far one floating output may be off, as numbers: `rms` of the result, `relative` (h), `allowed`, `floor`."""

    def __init__(self, dtype):
        self.dtype = real_dtype(dtype)
        self.rms = self.relative = self.allowed = self.floor = 0.0

    def allow(self, relative, naive_error, terms):
        """Sets the budget's factors from h, n and `terms` as above."""
        self.relative = relative
        self.allowed = max(HONEST[self.dtype] * relative, NAIVE * naive_error)
        self.floor = (FLOOR[self.dtype] + SUM[self.dtype] * terms**0.5) * EPS[self.dtype]

    @property
    def honest(self):
        """The honest error of elements of size rms, as an absolute number."""
        return self.relative * max(self.rms, SMALLEST_SCALE)

    def ill_conditioned(self, usual_rms):
        """Whether the honest error is a sizeable part of the result (`usual_rms`: of the task's own inputs)."""
        scale = max(self.rms, SMALLEST_SCALE)
        return self.allowed * scale > ILL_CONDITIONED * max(scale, usual_rms)


class Leaf(Bounds):
    """What one floating output may look like: `eager` and `naive` in the task's dtype, `gold` and `shaken` in float64."""

    def __init__(self, eager, gold, shaken=(), terms=0, naive=None):
        super().__init__(eager.dtype)
        self.eager, self.gold = real(eager), real(gold).double()
        finite = self.gold[torch.isfinite(self.gold)]
        self.rms = float(finite.square().mean().sqrt()) if finite.numel() else 0.0
        self.scale = self.gold.abs().nan_to_num(0, 0, 0) + max(self.rms, SMALLEST_SCALE)

        # Each element's own honest error, absolute.
        self.local = torch.zeros_like(self.gold)

        def error(other):
            errors = (real(other).double() - self.gold).abs()
            self.local = torch.maximum(self.local, errors.nan_to_num(0, 0, 0))
            return largest(errors / self.scale)

        relative = max(error(other) for other in (eager, *shaken))
        self.allow(relative, error(naive) if naive is not None else 0.0, terms)

    @property
    def gold_finite(self):
        return bool(torch.isfinite(self.gold).all())

    @property
    def eager_finite(self):
        return bool(torch.isfinite(self.eager).all())

    def budget(self):
        usual = (self.allowed + self.floor) * self.scale if self.rms > 0 else self.allowed * self.scale
        return torch.maximum(usual, HONEST[self.dtype] * self.local)
