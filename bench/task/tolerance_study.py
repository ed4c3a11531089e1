#!/usr/bin/env python3
"""Which implementations does the error budget pass, and which does it refuse?

    bench/task/tolerance_study.py [--ids 1/1,1/23,…] [--trials 7] [-v]

Simulated candidates, in torch, over some forty KernelBench tasks: the reference itself with one thing done differently.

honest, must pass          sequential float32 sums (products, convolutions, reductions, softmax and norms as naive loops),
                           the same in chunks of 32, approximate exp/tanh/log of `--use_fast_math` strength
dishonest, must be refused operands of products and convolutions rounded to TF32, bfloat16 or half; the whole computation in
                           half precision; results rounded to half; a bias left out; the last row of each output stale;
                           every 1000th element off by 0.1 %

A dishonest variant that changes nothing on a task (no product in it, no bias) is not counted there.
"""

import argparse
import json
import os
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "runtime", "python"))

import torch  # noqa: E402
from musaref.compare import bitwise_equal, compare  # noqa: E402
from musaref.errors import TaskError  # noqa: E402
from musaref.session import Task  # noqa: E402
from musaref.tree import leaves, tree_map  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

aten = torch.ops.aten
DEFAULT = ("1/1,1/2,1/4,1/6,1/8,1/9,1/12,1/14,1/19,1/21,1/22,1/23,1/24,1/26,1/29,1/33,1/34,1/35,1/36,1/38,1/40,1/44,1/47,1/50,"
           "1/55,1/57,1/61,1/67,1/86,1/89,1/91,1/94,1/95,1/97,1/98,1/99,2/1,2/4,2/9,2/11,2/12,2/17,2/22,2/30,2/37,2/45,2/59,2/64,"
           "2/66,2/84,2/88,2/99,3/1,3/4,3/8,3/31,3/33,3/43,3/47,3/50")


def sequential_mm(a, b, chunk):
    """a @ b by adding one product after the other in float32 (chunk 1), or chunk by chunk."""
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    out = torch.zeros(*batch, a.shape[-2], b.shape[-1], dtype=a.dtype)
    if chunk == 1:
        for k in range(a.shape[-1]):
            out += a[..., :, k:k + 1] * b[..., k:k + 1, :]
        return out
    for k in range(0, a.shape[-1], chunk):
        part = torch.zeros_like(out)
        for j in range(k, min(k + chunk, a.shape[-1])):
            part += a[..., :, j:j + 1] * b[..., j:j + 1, :]
        out += part
    return out


def sequential_sum(x, dims, keepdim, chunk):
    dims = [d % x.dim() for d in dims] if dims else list(range(x.dim()))
    kept = [d for d in range(x.dim()) if d not in dims]
    flat = x.permute(*kept, *dims).reshape([x.shape[d] for d in kept] + [-1]).contiguous()
    out = running(flat, chunk)
    if keepdim:
        out = out.reshape([1 if d in dims else x.shape[d] for d in range(x.dim())])
    return out


def running(flat, chunk):
    """The sum over the last dimension in order; in 32 lanes that are added at the end for chunk > 1."""
    n = flat.shape[-1]
    if chunk > 1:
        lanes = min(chunk, n)
        pad = -n % lanes
        flat = torch.nn.functional.pad(flat, (0, pad)).reshape(*flat.shape[:-1], -1, lanes).transpose(-1, -2)
        return running(running(flat.contiguous(), 1), 1)
    import numpy
    return torch.from_numpy(numpy.add.accumulate(flat.numpy(), axis=-1, dtype=numpy.float32)[..., -1].copy())


def naive_conv(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups, chunk):
    """By unfolding; the products are then summed like those of a matrix product. Plain convolutions only."""
    if transposed or x.dim() != 4:
        return None
    n, _, h, w = x.shape
    kh, kw = weight.shape[2:]
    cols = torch.nn.functional.unfold(x, (kh, kw), tuple(dilation), tuple(padding), tuple(stride))
    oh = (h + 2 * padding[0] - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    ow = (w + 2 * padding[1] - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    cols = cols.reshape(n, groups, -1, oh * ow)
    kernel = weight.reshape(1, groups, weight.shape[0] // groups, -1)
    out = sequential_mm(kernel, cols, chunk).reshape(n, weight.shape[0], oh, ow)
    return out if bias is None else out + bias.reshape(1, -1, 1, 1)


class Naive(TorchDispatchMode):
    """Products, convolutions, reductions, softmax and normalisations as naive float32 loops."""

    def __init__(self, chunk=1):
        super().__init__()
        self.chunk = chunk
        self.changed = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = self.replace(func._overloadpacket, args, kwargs)
        if out is None:
            return func(*args, **kwargs)
        self.changed = True
        return out

    def mean(self, x, dims):
        count = 1
        for d in dims:
            count *= x.shape[d]
        return sequential_sum(x, dims, True, self.chunk) / count

    def replace(self, op, args, kwargs):
        if not args or not isinstance(args[0], torch.Tensor) or args[0].dtype != torch.float32:
            return None
        x = args[0]
        if op in (aten.mm, aten.bmm):
            return sequential_mm(x, args[1], self.chunk)
        if op is aten.addmm:
            return sequential_mm(args[1], args[2], self.chunk) + x
        if op is aten.convolution:
            return naive_conv(*args[:9], chunk=self.chunk)
        if op in (aten.sum, aten.mean) and not kwargs.get("dtype"):
            dims = args[1] if len(args) > 1 and args[1] is not None else []
            dims = [dims] if isinstance(dims, int) else list(dims)
            keep = args[2] if len(args) > 2 else kwargs.get("keepdim", False)
            total = sequential_sum(x, dims, keep, self.chunk)
            return total if op is aten.sum else total / (x.numel() / max(1, total.numel()))
        if op in (aten._softmax, aten._log_softmax):
            m = x.amax(args[1], keepdim=True)
            e = torch.exp(x - m)
            s = sequential_sum(e, [args[1]], True, self.chunk)
            return e / s if op is aten._softmax else x - m - torch.log(s)
        if op is aten.cumsum and not kwargs.get("dtype"):
            import numpy
            return torch.from_numpy(numpy.add.accumulate(x.numpy(), axis=args[1], dtype=numpy.float32))
        if op is aten.native_layer_norm:
            dims = list(range(x.dim() - len(args[1]), x.dim()))
            mean = self.mean(x, dims)
            inv = torch.rsqrt(self.mean((x - mean) ** 2, dims) + args[4])
            y = (x - mean) * inv
            y = y if args[2] is None else y * args[2]
            return (y if args[3] is None else y + args[3]), mean, inv
        if op is aten.native_group_norm:
            n, c, groups = args[3], args[4], args[6]
            g = x.reshape(n, groups, -1)
            mean = self.mean(g, [2])
            inv = torch.rsqrt(self.mean((g - mean) ** 2, [2]) + args[7])
            y = ((g - mean) * inv).reshape(x.shape)
            shape = [1, c] + [1] * (x.dim() - 2)
            y = y if args[1] is None else y * args[1].reshape(shape)
            return (y if args[2] is None else y + args[2].reshape(shape)), mean.reshape(n, groups), inv.reshape(n, groups)
        if op is aten.native_batch_norm and args[5]:
            dims = [d for d in range(x.dim()) if d != 1]
            shape = [1, -1] + [1] * (x.dim() - 2)
            mean = self.mean(x, dims)
            inv = torch.rsqrt(self.mean((x - mean) ** 2, dims) + args[7])
            y = (x - mean) * inv
            y = y if args[1] is None else y * args[1].reshape(shape)
            return (y if args[2] is None else y + args[2].reshape(shape)), mean.reshape(-1), inv.reshape(-1)
        return None


class FastMath(TorchDispatchMode):
    """exp, log, sigmoid, tanh as `__expf`, `__logf` and quotients of them: off by some units in the last place."""

    def __init__(self):
        super().__init__()
        self.changed = False

    @staticmethod
    def exp(x):
        # ex2.approx(x · log2 e): the product is rounded to float32 before the power is taken (2 ulp + 1.16 |x| ulp)
        return torch.exp2((x * 1.4426950408889634).double()).float() * (1 + 2.0**-23)

    @staticmethod
    def log(x):
        return (torch.log2(x.double()).float() * (1 + 2.0**-23)) * 0.6931471805599453

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        op = func._overloadpacket
        x = args[0] if args and isinstance(args[0], torch.Tensor) and args[0].dtype == torch.float32 else None
        out = None
        if x is not None:
            if op is aten.exp:
                out = self.exp(x)
            elif op is aten.log:
                out = self.log(x)
            elif op is aten.sigmoid:
                out = 1 / (1 + self.exp(-x))
            elif op is aten.tanh:
                e = self.exp(-2 * x.abs())
                out = torch.sign(x) * (1 - e) / (1 + e)
                out = torch.where(x.abs() < 0.05, x - x**3 / 3 + 2 * x**5 / 15, out)  # as kernels do near zero
            elif op is aten.silu:
                out = x / (1 + self.exp(-x))
            elif op in (aten._softmax, aten._log_softmax):
                shifted = x - x.amax(args[1], keepdim=True)
                e = self.exp(shifted)
                s = e.sum(args[1], keepdim=True)
                out = e / s if op is aten._softmax else shifted - self.log(s)
        if out is None:
            return func(*args, **kwargs)
        self.changed = True
        return out


def round_mantissa(t, bits):
    """Float32 rounded to `bits` explicit mantissa bits (TF32: 10, bfloat16: 7)."""
    drop = 23 - bits
    i = t.contiguous().view(torch.int32)
    i = (i + ((1 << (drop - 1)) - 1) + ((i >> drop) & 1)) & ~((1 << drop) - 1)
    return torch.where(torch.isfinite(t), i.view(torch.float32), t)


class LowOperands(TorchDispatchMode):
    """Operands of products and convolutions in a coarser format, sums in float32 (tensor cores)."""

    def __init__(self, rounding):
        super().__init__()
        self.rounding = rounding
        self.changed = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        first = {"mm": 0, "bmm": 0, "mv": 0, "addmm": 1, "baddbmm": 1, "convolution": 0}.get(func._overloadpacket.__name__)
        if first is not None and args[first].dtype == torch.float32:
            args = list(args)
            for i in (first, first + 1):
                args[i] = self.rounding(args[i])
            self.changed = True
        return func(*args, **(kwargs or {}))


class RoundedResults(TorchDispatchMode):
    """Every operator's float32 result rounded to half precision: half arithmetic throughout."""

    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype
        self.changed = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor) and out.dtype == torch.float32 and not func.is_view and \
                not func._overloadpacket.__name__.endswith("_"):
            self.changed = True
            return out.to(self.dtype).float()
        return out


class NoBias(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.changed = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._overloadpacket.__name__
        if name == "addmm":
            self.changed = True
            return args[1] @ args[2]
        if name == "convolution" and args[2] is not None:
            self.changed = True
            args = (*args[:2], None, *args[3:])
        return func(*args, **(kwargs or {}))


def stale_tail(outputs):
    def cut(t):
        t = t.clone(memory_format=torch.contiguous_format)
        if t.is_floating_point() and t.numel() > 1:
            t.reshape(-1)[-max(1, t.shape[-1] // 2 if t.dim() else 1):] = 0
        return t
    return tree_map(cut, outputs)


def sparse_slip(outputs):
    def slip(t):
        t = t.clone(memory_format=torch.contiguous_format)
        if t.is_floating_point() and t.numel():
            flat = t.reshape(-1)
            flat[::1000] *= 1.001
        return t
    return tree_map(slip, outputs)


HONEST = {"sequential": lambda: Naive(1), "lanes of 32": lambda: Naive(32), "fast math": FastMath}
DISHONEST = {
    "tf32": lambda: LowOperands(lambda t: round_mantissa(t, 10)),
    "bf16": lambda: LowOperands(lambda t: round_mantissa(t, 7)),
    "half": lambda: LowOperands(lambda t: t.half().float()),
    "half results": lambda: RoundedResults(torch.float16),
    "no bias": NoBias,
}
EDITS = {"stale tail": stale_tail, "0.1 % slips": sparse_slip}


def judge(task, trials, make=None, edit=None):
    """(passes every trial, worst ratio, did anything, first failing distribution)"""
    worst, changed, failed = 0.0, False, ""
    for trial in trials:
        if edit is not None:
            outputs = edit(trial.expected.eager)
        else:
            mode = make()
            with mode:
                outputs, _ = task.reference.run(trial.inputs, trial.seed)
        changed |= not all(bitwise_equal(a, b) for (_, a), (_, b) in zip(leaves(trial.expected.eager), leaves(outputs), strict=False)
                           if isinstance(a, torch.Tensor))
        result = compare(trial.expected, outputs)
        ratio = (result["worst"] or {}).get("ratio", 0.0)
        worst = max(worst, float(ratio))
        if not result["pass"] and not failed:
            failed = trial.distribution
    return not failed, worst, changed, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ids", default=DEFAULT)
    parser.add_argument("--trials", type=int, default=7)
    parser.add_argument("--variants", help="only these, comma-separated")
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    data = os.environ.get("MUSACODER_DATA", os.path.join(ROOT, "..", "shared", "data"))
    path = os.path.join(data, "kernelbench.jsonl")
    if not os.path.exists(path):
        sys.exit(f"no data at {path}; set MUSACODER_DATA")
    wanted = options.ids.split(",")
    with open(path) as file:
        codes = {f"{r['level']}/{r['id']}": r["code"] for r in map(json.loads, file)}
    counts = {name: [0, 0, []] for name in (*HONEST, *DISHONEST, *EDITS)}  # tasks counted, passed, worst ratios
    tasks = 0
    for name in wanted:
        try:
            task = Task(codes[name], name)
            trials = [t for i in range(options.trials) if not (t := task.trial(i, 100 + i)).skipped]
        except TaskError as error:
            print(f"{name}: {error.message[:100]}")
            continue
        tasks += 1
        line = []
        for kind, variants in (("honest", HONEST), ("dishonest", DISHONEST), ("edit", EDITS)):
            for variant, make in variants.items():
                if options.variants and variant not in options.variants.split(","):
                    continue
                try:
                    passed, ratio, changed, failed = judge(task, trials, None if kind == "edit" else make,
                                                           make if kind == "edit" else None)
                except Exception as error:  # a simulation that this task cannot be put through
                    line.append(f"{variant}: {type(error).__name__} {str(error)[:50]}")
                    continue
                if not changed:
                    continue
                counts[variant][0] += 1
                counts[variant][1] += passed
                counts[variant][2].append(ratio)
                if passed != (kind == "honest") or options.verbose:
                    line.append(f"{variant}: {'passes' if passed else 'fails on ' + failed} (worst {ratio:.3g})")
        if line:
            print(f"{name}: " + "; ".join(line), flush=True)
    print(f"\n{tasks} tasks, up to {options.trials} trials each, torch {torch.__version__}")
    print("| variant | should | tasks | pass | fail | smallest worst ratio | largest |")
    print("|---|---|---|---|---|---|---|")
    for variant, (counted, passed, ratios) in counts.items():
        should = "pass" if variant in HONEST else "fail"
        if not counted:
            continue
        low, high = (min(ratios), max(ratios)) if ratios else (0, 0)
        print(f"| {variant} | {should} | {counted} | {passed} | {counted - passed} | {low:.3g} | {high:.3g} |")


if __name__ == "__main__":
    main()
