"""Reductions over tensors of any size, a tile at a time: no temporary is larger than a tile, indices are 64 bits wide.

    for start, (g, e) in tiles(got, eager):    # flat views of at most TILE elements
        …

Results stay on the device until the last tile is queued: one wait a reduction, not one a tile.
"""

import hashlib

import torch

from ..tolerance import FLIP, OUTLIER_CAP, OUTLIERS

TILE = 1 << 26            # elements; a float64 temporary of one tile has 512 MiB
HOST_TILE = 1 << 22


def tile_of(device):
    return TILE if torch.device(device).type != "cpu" else HOST_TILE


def flat(t):
    """All elements in logical order as one dimension; a view where the tensor is contiguous."""
    return t.detach().reshape(-1)


def tiles(*tensors, tile=None):
    """Yields (start, [a flat part of each]) of tensors with equal numbers of elements."""
    parts = [flat(t) for t in tensors]
    count = parts[0].numel()
    tile = tile or tile_of(parts[0].device)
    for start in range(0, count, tile):
        yield start, [p[start:start + tile] for p in parts]


def memory(t):
    """The tensor's elements as they lie in memory, from the first to the last that its strides reach, as one dimension."""
    t = t.detach().resolve_conj().resolve_neg()
    if t.numel() == 0:
        return t.reshape(-1)
    reach = sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True)) + 1
    return torch.as_strided(t, (reach,), (1,))


def words(t):
    """(int64 words, the 0 to 7 bytes after the last word) of a flat tensor's bytes; copies only what is not aligned."""
    data = t.view(torch.uint8)
    whole = data.numel() // 8 * 8
    head = data[:whole]
    if head.numel() and head.data_ptr() % 8:
        return None, data
    return head.view(torch.int64), data[whole:]


def same(a, b):
    """Same shape, dtype and bytes (NaNs included)."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.numel() == 0:
        return True
    if a.stride() == b.stride() and a.is_contiguous():
        x, y = memory(a), memory(b)
    elif a.numel() <= tile_of(a.device):
        x, y = flat(a.contiguous()), flat(b.contiguous())
    else:  # row by row of the longest dimension: never a copy of everything
        d = max(range(a.dim()), key=lambda i: a.shape[i])
        step = max(1, tile_of(a.device) * a.shape[d] // a.numel())
        return all(same(a.narrow(d, i, min(step, a.shape[d] - i)).contiguous(), b.narrow(d, i, min(step, a.shape[d] - i)).contiguous())
                   for i in range(0, a.shape[d], step))
    return same_memory(x, y)


def same_memory(x, y):
    """Whether two flat tensors of one dtype hold the same bytes."""
    (x, x_rest), (y, y_rest) = words(x), words(y)
    pairs = [(x_rest, y_rest)] if x_rest.numel() == y_rest.numel() else []
    if x is None or y is None or not pairs:
        x, y = (torch.cat([t.view(torch.uint8), r]) if t is not None else r for t, r in ((x, x_rest), (y, y_rest)))
        pairs = []
    differ = torch.zeros((), dtype=torch.bool, device=x.device)
    for _, (a, b) in tiles(x, y):
        differ |= (a != b).any()
    for a, b in pairs:
        if a.numel():
            differ |= (a != b).any()
    return not bool(differ)


def root_mean_square(t):
    """(rms of the finite elements, whether all are finite) of a floating tensor, summed in float64."""
    total = torch.zeros((), dtype=torch.float64, device=t.device)
    finite = torch.zeros((), dtype=torch.int64, device=t.device)
    for _, (x,) in tiles(t):
        x = x.double()
        ok = torch.isfinite(x)
        total += torch.where(ok, x, 0.0).square_().sum()
        finite += ok.sum()
    total, finite = torch.stack([total, finite.double()]).tolist()
    return (total / finite) ** 0.5 if finite else 0.0, finite == t.numel()


class Largest:
    """The largest finite errors, as in tolerance.largest: outliers (one in OUTLIERS) count for at most OUTLIER_CAP others.

    `add` tile by tile, then `value()`. Keeps one candidate in OUTLIERS of all elements.
    """

    def __init__(self, total):
        self.keep = total // OUTLIERS + 1
        self.found = None
        self.finite = None

    def add(self, errors):
        ok = torch.isfinite(errors)
        errors = torch.where(ok, errors, -1.0).reshape(-1)
        self.finite = ok.sum() if self.finite is None else self.finite + ok.sum()
        top = torch.topk(errors, min(self.keep, errors.numel()), sorted=False).values
        if self.found is not None:
            top = torch.cat([self.found, top])
            top = torch.topk(top, min(self.keep, top.numel()), sorted=False).values
        self.found = top

    def value(self):
        finite = int(self.finite) if self.finite is not None else 0
        if not finite:
            return 0.0
        top = self.found.sort(descending=True).values
        worst, rest = (float(v) for v in torch.stack([top[0], top[finite // OUTLIERS]]).tolist())
        if rest <= 0:
            return worst if worst < FLIP else 0.0
        return min(worst, OUTLIER_CAP * rest)


WORDS = 1 << 22           # of a step of a checksum
_weights = {}             # device → odd numbers, one a word of a step


def checksum(tensors):
    """A short text that changes when any element of the tensors does, or when two change places; no defence against forgery."""
    parts = []
    for t in tensors:
        parts.append(f"{t.dtype} {tuple(t.shape)}")
        if not t.numel():
            continue
        x, rest = words(memory(t))
        if x is None:
            x, rest = words(rest.clone())
        if x.device not in _weights:
            _weights[x.device] = torch.arange(WORDS, dtype=torch.int64, device=x.device) * _MIX[2] | 1
        weights = _weights[x.device]
        sums = [torch.stack([part.sum(), (part * weights[:part.numel()]).sum()]) for _, (part,) in tiles(x, tile=WORDS)]
        parts += [str(torch.stack(sums).tolist()) if sums else "", str(rest.tolist())]
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()


_MIX = (-7046029254386353131, -4417276706812531889, 0x27D4EB2F165667C5)  # odd 64-bit constants (xxHash's primes)
SAMPLE = 1 << 20          # words a tensor that a digest looks at


def _words_digest(x):
    """Two 64-bit sums of mixed words (shape [2]): order and value of every word count, all modulo 2^64."""
    index = torch.arange(x.numel(), dtype=torch.int64, device=x.device)
    sums = []
    for i in range(2):
        mixed = (x ^ (index * _MIX[i] + _MIX[2])) * _MIX[1 - i]
        mixed ^= mixed >> 29
        mixed *= _MIX[2]
        mixed ^= mixed >> 32
        sums.append(mixed.sum())
    return torch.stack(sums)


def digest(tensors):
    """32 hex digits over bytes (and dtypes and shapes) of tensors: of all up to SAMPLE 8-byte words, beyond that of every n-th.

    Finds replayed results; no defence against forgery.
    """
    outer = hashlib.blake2b(digest_size=16)
    for t in tensors:
        outer.update(repr((str(t.dtype), tuple(t.shape))).encode())
        if not t.numel():
            continue
        x, rest = words(memory(t) if t.is_contiguous() else flat(t.contiguous()))
        if x is None:
            x, rest = words(rest.clone())
        outer.update(repr((_words_digest(x[::-(-x.numel() // SAMPLE) or 1]).tolist(), rest.tolist())).encode())
    return outer.hexdigest()
