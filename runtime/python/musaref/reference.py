"""Runs a task's `Model`: in its own dtype as it stands, and in float64 as the gold every result is measured against.

A run never changes the module it is given: each works on a copy, so parameters, buffers and plain tensor attributes
(recurrent state, running statistics) are those of the freshly built module every time.
"""

import contextlib
import copy
import random

import torch
from torch.overrides import TorchFunctionMode

from .source import quiet
from .trace import OnHost
from .tree import tree_map

LOW = (torch.float32, torch.float16, torch.bfloat16)


def seed_all(seed):
    """Every generator that task code may use."""
    torch.manual_seed(seed)
    random.seed(seed)
    try:
        import numpy
        numpy.random.seed(seed % (1 << 32))
    except ImportError:
        pass


def call_get_inputs(task):
    inputs = task.get_inputs()
    if isinstance(inputs, torch.Tensor) or not isinstance(inputs, (list, tuple)):
        inputs = [inputs]
    return list(inputs)


def call_get_init_inputs(task):
    """(args, kwargs) for Model: a list or tuple, one value, a dict of keywords, or [args…, {keywords}]."""
    function = getattr(task, "get_init_inputs", None)
    made = function() if function is not None else []
    if made is None:
        return [], {}
    if isinstance(made, dict):
        return [], dict(made)
    if not isinstance(made, (list, tuple)):
        return [made], {}
    if len(made) == 2 and isinstance(made[0], (list, tuple)) and isinstance(made[1], dict) and \
            all(isinstance(k, str) for k in made[1]):
        return list(made[0]), dict(made[1])
    return list(made), {}


def construct(task, args, kwargs, seed):
    seed_all(seed)
    return task.Model(*args, **kwargs)


class InDouble(TorchFunctionMode):
    """Task code that names a floating dtype itself means float64 here."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in ("float", "half", "bfloat16") and args and isinstance(args[0], torch.Tensor):
            return args[0].double()
        if any(a is d for a in args for d in LOW):
            args = tuple(torch.float64 if any(a is d for d in LOW) else a for a in args)
        if any(kwargs.get("dtype") is d for d in LOW):
            kwargs = {**kwargs, "dtype": torch.float64}
        return func(*args, **kwargs)


def _attributes(value, convert, depth=0):
    if isinstance(value, torch.Tensor):
        return convert(value)
    if depth < 4 and isinstance(value, dict):
        return {k: _attributes(v, convert, depth + 1) for k, v in value.items()}
    if depth < 4 and isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(_attributes(v, convert, depth + 1) for v in value)
    return value


def to_double(module):
    """In place: floating parameters, buffers and plain tensor attributes become float64."""
    def convert(t):
        return t.double() if t.dtype in LOW else t
    module.double()
    for part in module.modules():
        for name, value in list(vars(part).items()):
            if name not in ("_parameters", "_buffers", "_modules") and not name.startswith("_forward") \
                    and not name.startswith("_backward"):
                if isinstance(value, (torch.Tensor, list, tuple, dict)):
                    vars(part)[name] = _attributes(value, convert)
                elif isinstance(value, torch.dtype) and value in LOW:
                    vars(part)[name] = torch.float64
    return module


def double_tree(value):
    return tree_map(lambda t: t.double() if t.dtype in LOW else t.to(torch.complex128) if t.dtype == torch.complex64
                    else t.clone(), value)


@contextlib.contextmanager
def default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def clone_tree(value):
    """Copies that keep strides; overlapping (expanded) tensors stay as they are laid out."""
    def clone(t):
        if t.layout != torch.strided:
            return t.clone()
        if t.numel() and any(s == 0 and n > 1 for n, s in zip(t.shape, t.stride())):
            return t.detach().clone(memory_format=torch.contiguous_format)
        made = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype)
        made.copy_(t.detach())
        return made
    return tree_map(clone, value)


def perturbed(value, unit, generator):
    """Every floating tensor times 1 ± unit·u: the rounding that any input may have had."""
    def shake(t):
        if not t.dtype.is_floating_point:
            return t
        noise = torch.rand(t.shape, dtype=torch.float64, generator=generator) * 2 - 1
        return t * (1 + unit * noise)
    return tree_map(shake, value)


class Reference:
    """One built module. `run` and `gold` leave it as it was."""

    def __init__(self, task, args, kwargs, seed):
        self.task, self.args, self.kwargs, self.seed = task, args, kwargs, seed
        with torch.no_grad(), quiet(), OnHost():
            self.module = construct(task, args, kwargs, seed)
        if not callable(self.module):
            raise TypeError("Model(...) is not callable")
        self._copies = True

    def fresh(self):
        if self._copies:
            try:
                return copy.deepcopy(self.module)
            except Exception:  # some modules cannot be copied; building again under the same seed gives the same one
                self._copies = False
        with torch.no_grad(), quiet(), OnHost():
            return construct(self.task, *copy.deepcopy((self.args, self.kwargs)), self.seed)

    def run(self, inputs, seed):
        """(outputs, inputs afterwards) in the task's own dtype."""
        module, inputs = self.fresh(), clone_tree(inputs)
        with torch.no_grad(), quiet(), OnHost():
            seed_all(seed)
            return module(*inputs), inputs

    def gold(self, inputs, seed, shake=None, mode=None):
        """(outputs, inputs afterwards) in float64.

        `shake(tree)` changes inputs and parameters first; `mode` is a context for the forward call (see tolerance).
        """
        module, inputs = to_double(self.fresh()), double_tree(inputs)
        with torch.no_grad(), quiet(), default_dtype(torch.float64), OnHost(), InDouble():
            if shake is not None:
                inputs = shake(inputs)
                for tensor in (*module.parameters(), *module.buffers()):
                    if tensor.dtype.is_floating_point:
                        tensor.copy_(shake(tensor))
            seed_all(seed)
            with mode or contextlib.nullcontext():
                return module(*inputs), inputs

    def state(self):
        """[(name, kind, tensor)]: parameters, then buffers."""
        named = [(n, "parameter", p) for n, p in self.module.named_parameters()] if hasattr(self.module, "named_parameters") else []
        if hasattr(self.module, "named_buffers"):
            named += [(n, "buffer", b) for n, b in self.module.named_buffers()]
        return named
