"""Which aten operators a piece of task code calls, how many FLOPs they do and how many bytes they move.

    trace = Trace()
    with trace:
        model(*inputs)
    trace.flops, trace.bytes, trace.ops, trace.computes
"""

import contextlib

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

# Operators that move or make values without computing any. A cast that changes the dtype is judged in `Trace` itself.
_COPIES = {
    "clone", "copy_", "copy", "contiguous", "_to_copy", "lift_fresh", "lift_fresh_copy", "detach", "detach_", "alias",
    "view", "_unsafe_view", "reshape", "_reshape_alias", "as_strided", "expand", "permute", "transpose", "t", "slice",
    "select", "squeeze", "unsqueeze", "unbind", "split", "split_with_sizes", "chunk", "narrow", "unfold", "diagonal",
    "movedim", "view_as_real", "view_as_complex", "cat", "stack", "repeat", "flip", "roll", "index", "index_select",
    "gather", "constant_pad_nd", "repeat_interleave", "slice_scatter", "select_scatter", "resolve_conj", "resolve_neg",
    "_local_scalar_dense", "is_same_size", "unsafe_split", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle",
    "native_channel_shuffle", "diagonal_copy", "take", "tile", "resize_", "set_", "transpose_", "squeeze_", "unsqueeze_",
}
_CREATES = {
    "empty", "empty_like", "empty_strided", "zeros", "zeros_like", "ones", "ones_like", "full", "full_like", "arange",
    "linspace", "eye", "scalar_tensor", "new_empty", "new_zeros", "new_ones", "new_full", "new_empty_strided", "fill_",
    "zero_", "fill", "_efficientzerotensor",
}
_RANDOM = {
    "rand", "randn", "rand_like", "randn_like", "randint", "randint_like", "randperm", "bernoulli", "bernoulli_",
    "native_dropout", "normal", "normal_", "uniform_", "multinomial", "exponential_", "random_", "_fused_dropout",
    "rrelu_with_noise", "poisson", "cauchy_", "geometric_", "log_normal_",
}


def _tensors(values):
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


_SELECTS = {"max", "min", "amax", "amin", "argmax", "argmin", "topk", "sort", "argsort", "any", "all", "max_pool2d_with_indices",
            "max_pool3d_with_indices", "adaptive_max_pool2d", "median", "kthvalue", "nonzero", "embedding", "glu", "where"}


def _terms(name, args, outs):
    """How many numbers one element of the result adds up."""
    tensors = [t for t in _tensors(args)]
    made = [t for t in _tensors(outs)]
    if not tensors or not made or name in _SELECTS or name in _COPIES or name in _CREATES or made[0].numel() == 0:
        return 0
    x, out = tensors[0], made[0]
    if name in ("mm", "bmm", "mv", "dot"):
        return x.shape[-1]
    if name in ("addmm", "baddbmm", "addmv", "addbmm"):
        return tensors[1].shape[-1]
    if name.endswith("convolution"):
        weight = args[1]
        return weight[0].numel() if not (len(args) > 6 and args[6]) else weight.numel() // max(1, weight.shape[1])
    if "attention" in name:
        return x.shape[-1] + (tensors[1].shape[-2] if len(tensors) > 1 and tensors[1].dim() > 1 else 0)
    if "softmax" in name or name.startswith(("cumsum", "cumprod", "logcumsumexp")):
        dim = args[1] if len(args) > 1 and isinstance(args[1], int) else -1
        return x.shape[dim] if x.dim() else 1
    if "layer_norm" in name:
        return int(torch.Size(args[1]).numel())
    if "batch_norm" in name:
        return x.numel() // max(1, x.shape[1] if x.dim() > 1 else 1)
    if "group_norm" in name:
        return x.numel() // max(1, args[3] * args[6]) if len(args) > 6 else x[0].numel()
    if name in ("lstm", "gru", "rnn_tanh", "rnn_relu", "mkldnn_rnn_layer"):
        return sum(x.shape[:-1]) * x.shape[-1]
    return x.numel() // out.numel() if out.numel() < x.numel() else 0


class Trace(TorchDispatchMode):
    """Counts while it is entered. `on_op(name)` may be set to look at each call."""

    def __init__(self):
        super().__init__()
        self.ops = {}
        self.flops = 0
        self.bytes = 0
        self.computes = False
        self.normalised = []   # values behind each batch statistic, call by call
        self.terms = 0       # numbers added up on the way to one result, summed over the operators

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        packet = func._overloadpacket
        name = packet.__name__
        key = f"aten::{name}" if func.namespace == "aten" else f"{func.namespace}::{name}"
        self.ops[key] = self.ops.get(key, 0) + 1
        outs = out if isinstance(out, (list, tuple)) else (out,)
        if name in _COPIES:
            if name in ("_to_copy", "copy_", "copy"):
                source = args[1] if name != "_to_copy" and len(args) > 1 else args[0]
                if isinstance(source, torch.Tensor) and isinstance(outs[0], torch.Tensor):
                    self.computes |= source.dtype != outs[0].dtype
        elif name not in _CREATES and name not in _RANDOM:
            self.computes |= any(t.numel() > 0 for t in _tensors(outs))
        if "batch_norm" in name and isinstance(args[0], torch.Tensor) and args[0].dim() > 1 and \
                any(a is True for a in args[3:7]):  # the `training` flag
            self.normalised.append(args[0].numel() // max(1, args[0].shape[1]))
        if not func.is_view:
            formula = flop_registry.get(packet)
            if formula is not None:
                with contextlib.suppress(Exception):  # a formula that does not know this overload: bytes alone count
                    self.flops += formula(*args, **kwargs, out_val=out)
            self.terms += _terms(name, args, outs)
            for tensor in _tensors((*args, *outs)):
                self.bytes += tensor.numel() * tensor.element_size()
        return out

    @property
    def work(self):
        return float(self.flops + self.bytes)


class RoundedOps(TorchDispatchMode):
    """Every operator's floating result times 1 ± unit, one sign an operator: what each may be off by in a coarser dtype.

    Coherent on purpose. Rounding that is random from element to element averages out in sums; an approximation of `log` or
    `exp` that is one unit off for equal arguments does not.
    """

    def __init__(self, unit, generator):
        super().__init__()
        self.unit, self.generator = unit, generator

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        name = func._overloadpacket.__name__
        if func.is_view or name in _COPIES or name in _CREATES or name in _RANDOM or name == "copy_":
            return out
        sign = 1.0 if torch.rand((), generator=self.generator).item() < 0.5 else -1.0
        for tensor in _tensors(out if isinstance(out, (list, tuple)) else (out,)):
            if tensor.dtype == torch.float64 and not any(tensor is a for a in args if not name.endswith("_")):
                tensor.mul_(1.0 + sign * self.unit)
        return out


_SCALAR_READS = {"item", "__float__", "__int__", "__bool__", "__index__", "tolist"}


def _rnn_layers(trace, gates, args):
    """Shapes and FLOPs of torch.lstm, gru, rnn_tanh, rnn_relu on meta tensors, without unrolling the steps."""
    packed = isinstance(args[1], torch.Tensor) and args[1].dim() == 1 and len(args) >= 9 and not isinstance(args[2], (tuple, list))
    if packed:
        return None
    x, hidden, params, has_biases, layers, _, _, bidirectional, batch_first = args[:9]
    h0 = hidden[0] if isinstance(hidden, (list, tuple)) else hidden
    directions = 2 if bidirectional else 1
    steps, batch = (x.shape[1], x.shape[0]) if batch_first else (x.shape[0], x.shape[1])
    size = h0.shape[-1]
    if h0.shape[0] != layers * directions or h0.shape[1] != batch:
        raise RuntimeError(f"Expected hidden size {(layers * directions, batch, size)}, got {list(h0.shape)}")
    weights = [p for p in params if p.dim() == 2]
    if x.shape[-1] != weights[0].shape[1]:
        raise RuntimeError(f"input.size(-1) must be equal to input_size. Expected {weights[0].shape[1]}, got {x.shape[-1]}")
    trace.flops += 2 * steps * batch * sum(w.numel() for w in weights)
    trace.bytes += 4 * steps * batch * size * directions * layers * (2 * gates + 2)
    trace.computes = True
    out = (hidden[0].shape[-1] if isinstance(hidden, (list, tuple)) else size) * directions
    shape = (batch, steps, out) if batch_first else (steps, batch, out)
    output = x.new_empty(shape)
    if isinstance(hidden, (list, tuple)):
        return (output, *(h.new_empty(h.shape) for h in hidden))
    return output, h0.new_empty(h0.shape)


class MetaHelp(TorchFunctionMode):
    """Lets task code run on meta tensors: values that it reads are made up, recurrent layers are not unrolled.

    What comes out is good for shapes and work, never for values, and is confirmed by a real run afterwards.
    """

    def __init__(self, trace):
        super().__init__()
        self.trace = trace

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if name in _SCALAR_READS and args and isinstance(args[0], torch.Tensor) and args[0].is_meta:
            t = args[0]
            zero = 0.0 if t.dtype.is_floating_point else (False if t.dtype == torch.bool else 0)
            if name == "tolist":
                return torch.zeros(t.shape, dtype=t.dtype, device="cpu").tolist()
            return {"__float__": float, "__int__": int, "__bool__": bool, "__index__": int}.get(name, type(zero))(zero)
        if name in ("lstm", "gru", "rnn_tanh", "rnn_relu") and len(args) >= 9:
            made = _rnn_layers(self.trace, {"lstm": 4, "gru": 3}.get(name, 1), args)
            if made is not None:
                self.trace.ops[f"aten::{name}"] = self.trace.ops.get(f"aten::{name}", 0) + 1
                return made
        kwargs = kwargs or {}
        if name in ("cpu", "cuda") and args:
            return args[0]
        if "device" in kwargs and kwargs["device"] is not None:
            kwargs = {**kwargs, "device": "meta"}
        if name == "to":
            args = tuple("meta" if isinstance(a, (str, torch.device)) else a for a in args)
        return func(*args, **kwargs)


class OnHost(TorchFunctionMode):
    """Task files that ask for a GPU run on the host: `.cuda()`, `device="cuda"`, `.musa()` and their kin mean the CPU here."""

    @staticmethod
    def _is_gpu(value):
        if isinstance(value, str):
            return value.split(":")[0] in ("cuda", "musa")
        return isinstance(value, torch.device) and value.type in ("cuda", "musa", "privateuseone")

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") == "cuda" and args:
            return args[0]
        if any(self._is_gpu(a) for a in args):
            args = tuple("cpu" if self._is_gpu(a) else a for a in args)
        if "device" in kwargs and self._is_gpu(kwargs["device"]):
            kwargs = {**kwargs, "device": "cpu"}
        return func(*args, **kwargs)
