"""What the random inputs of a trial look like.

Values are changed where they are made, inside `get_inputs`: while it runs, `torch.rand`, `randn` and their kin return
numbers from the trial's distribution. Whatever the task builds from them (a triangular or symmetric matrix, a softmax, a
boolean mask, a scaled copy) keeps its structure, and labels, indices and constants are left alone. A distribution that the
reference does not support (it raises, or is no longer finite, or float32 itself is lost) is skipped for that task.
"""

import torch
from torch.overrides import TorchFunctionMode

# Trial index modulo 7 → name (docs/protocols.md §2).
ORDER = ("own", "normal", "uniform", "large", "tiny", "sparse_outliers", "constant_rows")

LARGE = 100.0           # overflows exp in float32 for about four in ten values, squares stay far below float16's 65504
LARGE_HALF = 8.0        # the same for float16 and bfloat16: sums of a few thousand squares stay finite
TINY = 1e-4             # squares lie below the usual eps of 1e-5, so a missing or misplaced eps shows
OUTLIER = 1000.0        # one in a thousand, at least one; a row's other values drown when it is summed carelessly
OUTLIER_HALF = 32.0
DENSITY = 0.05          # share of values of the sparse distribution that are not zero

# What a task's case may ask for by name (cases.Variant); a pair (low, high) stands for uniform numbers between the two.
CASE_VALUES = ("zeros", "ones", "negative", "large", "tiny")


def name_of(index):
    return ORDER[index % len(ORDER)]


def label(name):
    """A distribution as text: "large", "1000 to 1001"."""
    return name if isinstance(name, str) else f"{name[0]:g} to {name[1]:g}"


def sample(name, shape, dtype, generator):
    """A tensor of `shape` from a distribution, where the generator is; deterministic in the generator's state."""
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    half = dtype in (torch.float16, torch.bfloat16)

    def normal(size):
        return torch.randn(size, dtype=wide, generator=generator, device=generator.device)

    def uniform(low, high):
        return torch.rand(shape, dtype=wide, generator=generator, device=generator.device) * (high - low) + low

    if isinstance(name, tuple):
        values = uniform(*name)
    elif name == "normal":
        values = normal(shape)
    elif name == "uniform":
        values = uniform(-1, 1)
    elif name == "large":
        values = normal(shape) * (LARGE_HALF if half else LARGE)
    elif name == "tiny":
        values = normal(shape) * TINY
    elif name in ("zeros", "ones"):
        values = torch.full(shape, float(name == "ones"), dtype=wide, device=generator.device)
    elif name == "negative":
        values = -normal(shape).abs()
    elif name == "sparse_outliers":
        values = normal(shape)
        pick = torch.rand(shape, dtype=torch.float32, generator=generator, device=generator.device)
        values = torch.where(pick < DENSITY, values, torch.zeros((), dtype=wide, device=values.device))
        count = max(1, values.numel() // 1000) if values.numel() else 0
        where = torch.randint(0, max(1, values.numel()), (count,), generator=generator, device=generator.device)
        # The sign follows from the place: one that is drawn twice gets the same value, whichever of the two a GPU writes last.
        sign = (where * 0x9E3779B1 >> 17 & 1) * 2 - 1
        values.view(-1)[where] = sign.to(wide) * (OUTLIER_HALF if half else OUTLIER)
    elif name == "constant_rows":
        rows = list(shape)
        rows[-1] = 1
        if len(rows) > 1 and shape[-1] == 1:
            rows[-2] = 1
        values = normal(rows).expand(shape).contiguous()
    else:
        raise ValueError(name)
    return values.to(dtype)


_MAKERS = {"rand", "randn", "rand_like", "randn_like", "normal", "uniform_", "normal_"}


def fill(out, name, generator, tile, dtype=None):
    """`sample` into `out`, `tile` elements at a time where that is possible: no temporaries of the size of `out`.

    `dtype`: what the values are for, where that is not out's own.
    """
    dtype = dtype or out.dtype
    if out.numel() <= tile or name == "constant_rows" or not out.is_contiguous():
        out.copy_(sample(name, out.shape, dtype, generator))
        return
    flat = out.view(-1)
    for start in range(0, out.numel(), tile):
        part = flat[start:start + tile]
        part.copy_(sample(name, part.shape, dtype, generator))


class Draw(TorchFunctionMode):
    """While entered, random float tensors with more than one element come from the named distribution.

    Only tensors on `device`; larger ones than `tile` elements are filled piece by piece (other values, same distribution).
    `narrow`: the dtype that float32 inputs will have in the end, which bounds their values.
    """

    def __init__(self, name, seed, device="cpu", tile=1 << 62, narrow=None):
        super().__init__()
        self.name, self.tile, self.narrow = name, tile, narrow
        self.device = torch.device(device)
        self.generator = torch.Generator(self.device).manual_seed((seed * 0x9E3779B1 + 0x7F4A7C15) % (1 << 63))
        self.drawn = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") in _MAKERS and isinstance(out, torch.Tensor) and out.is_floating_point() \
                and out.numel() > 1 and out.device.type == self.device.type:
            self.drawn += 1
            if self.name != "own":
                with torch._C.DisableTorchFunction():
                    fill(out.detach(), self.name, self.generator, self.tile, self.narrow if out.dtype == torch.float32 else None)
        return out
