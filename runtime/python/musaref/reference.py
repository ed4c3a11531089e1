"""Runs a task's `Model`: in its own dtype as it stands, and in float64 as the gold every result is measured against.

Each run begins with the parameters, buffers and plain attributes (recurrent state, running statistics) of the freshly built
module, whatever the run before it did to them.
"""

import contextlib
import random
import sys

import torch
from torch.overrides import TorchFunctionMode

from .source import quiet
from .trace import OnHost
from .tree import tree_map

LOW = (torch.float32, torch.float16, torch.bfloat16)


def _gpus_in_use():
    """torch.cuda and torch.musa, where they are there and in use."""
    modules = (getattr(torch, name, None) for name in ("cuda", "musa"))
    return [gpu for gpu in modules if hasattr(gpu, "is_initialized") and gpu.is_initialized()]


def seed_all(seed):
    """Every generator that task code may use.

    As torch.manual_seed does; that would also queue a call, with the stack as text, for every backend that is not in use.
    """
    torch.default_generator.manual_seed(seed)
    for gpu in _gpus_in_use():
        gpu.manual_seed_all(seed)
    random.seed(seed)
    try:
        import numpy
        numpy.random.seed(seed % (1 << 32))
    except ImportError:
        pass


def generators():
    """The state of each of these generators; unequal before and after a call that drew from one."""
    numpy = sys.modules.get("numpy")
    drawn = numpy.random.get_state(legacy=False)["state"] if numpy is not None else {}
    gpu = b"".join(gpu.get_rng_state().numpy(force=True).tobytes() for gpu in _gpus_in_use())
    return (gpu, torch.get_rng_state().numpy(force=True).tobytes(), random.getstate(),
            [value.tobytes() if hasattr(value, "tobytes") else value for value in drawn.values()])


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


def narrow(module, dtype):
    """float32 parameters and buffers in another dtype, as module.half() has them; everything else stays."""
    return module._apply(lambda t: t.to(dtype) if t.dtype == torch.float32 else t)


class InDouble(TorchFunctionMode):
    """Task code that names a floating dtype itself means float64 here; random numbers are those of the float32 run."""

    _DRAWS = {"rand", "randn", "rand_like", "randn_like"}
    _DRAWS_IN_PLACE = {"uniform_", "normal_", "exponential_", "log_normal_", "cauchy_"}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in self._DRAWS and kwargs.get("dtype") in (None, *LOW):
            return func(*args, **{**kwargs, "dtype": kwargs.get("dtype") or torch.float32}).double()
        if name in self._DRAWS_IN_PLACE and args[0].dtype == torch.float64:
            return args[0].copy_(func(args[0].float(), *args[1:], **kwargs))
        if name in ("float", "half", "bfloat16") and args and isinstance(args[0], torch.Tensor):
            return args[0].double()
        if any(a is d for a in args for d in LOW):
            args = tuple(torch.float64 if any(a is d for d in LOW) else a for a in args)
        if any(kwargs.get("dtype") is d for d in LOW):
            kwargs = {**kwargs, "dtype": torch.float64}
        return func(*args, **kwargs)


_KEPT = ("_parameters", "_buffers", "_modules")


def _copied(value, convert, depth=0):
    """Containers anew, tensors by `convert`, everything else as it is."""
    if isinstance(value, torch.Tensor):
        return convert(value)
    if depth < 4 and type(value) in (list, tuple):
        return type(value)(_copied(v, convert, depth + 1) for v in value)
    if depth < 4 and type(value) is dict:
        return {k: _copied(v, convert, depth + 1) for k, v in value.items()}
    return value


def _plain_attributes(part):
    return {k: v for k, v in vars(part).items() if k not in _KEPT and not k.startswith(("_forward", "_backward", "_state_dict"))}


class Snapshot:
    """The state of a module as it was built: parameters, buffers, plain attributes (tensors in containers included).

    `restore` puts it back into the very same module objects, so that functions which closed over a submodule see it too;
    with `double`, floating values come back as float64. A plain attribute that is a parameter (the flat weights of recurrent
    layers) stays that parameter. With `device`, everything comes back there, wherever it was built.
    """

    def __init__(self, module, device=None):
        self.parameters = {id(p) for p in module.parameters()}

        def copy(t):
            return t.detach().clone() if device is None else t.detach().to(device, copy=True)

        def keep(t):
            return t if id(t) in self.parameters else copy(t)
        self.parts = [(part, {n: None if p is None else (p, copy(p)) for n, p in part._parameters.items()},
                       {n: None if b is None else keep(b) for n, b in part._buffers.items()},
                       _copied(_plain_attributes(part), keep)) for part in module.modules()]

    def restore(self, double):
        def convert(t):
            if id(t) in self.parameters:
                return t
            return t.double() if double and t.dtype in LOW else t.clone()
        with torch.no_grad():
            for part, parameters, buffers, attributes in self.parts:
                part._parameters.clear()
                for name, kept in parameters.items():
                    if kept is not None:
                        kept[0].data = convert(kept[1])
                    part._parameters[name] = kept[0] if kept is not None else None
                part._buffers.clear()
                part._buffers.update({n: None if b is None else convert(b) for n, b in buffers.items()})
                for name in [n for n in _plain_attributes(part) if n not in attributes]:
                    del vars(part)[name]
                for name, value in _copied(attributes, convert).items():
                    vars(part)[name] = torch.float64 if double and isinstance(value, torch.dtype) and value in LOW else value


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
        if t.numel() and any(s == 0 and n > 1 for n, s in zip(t.shape, t.stride(), strict=False)):
            return t.detach().clone(memory_format=torch.contiguous_format)
        made = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device)
        made.copy_(t.detach())
        return made
    return tree_map(clone, value)


_NOISE = 65521  # a prime, so that the pattern does not line up with any shape


def perturbed(value, unit, generator):
    """Every floating tensor times 1 ± unit·u: the rounding that any input may have had. The noise repeats itself."""
    noise = 1 + unit * (torch.rand(_NOISE, dtype=torch.float64, generator=generator) * 2 - 1)

    def shake(t):
        if not t.dtype.is_floating_point or t.numel() == 0:
            return t
        return t * noise.to(t.device).repeat(-(-t.numel() // _NOISE))[:t.numel()].reshape(t.shape).to(t.dtype)
    return tree_map(shake, value)


class Reference:
    """One built module. Every `run` and `gold` begins with the state in which it was built.

    It is built on the host under `seed`, whatever it runs on; `device` is where its state goes then (None: nowhere), and
    `place` makes the context that decides where the tensors go that `forward` makes. `dtype` takes the place of float32 in its state.
    """

    def __init__(self, task, args, kwargs, seed, device=None, place=OnHost, dtype=None):
        self.place = place
        with torch.no_grad(), quiet(), OnHost():
            self.module = construct(task, args, kwargs, seed)
        if not callable(self.module):
            raise TypeError("Model(...) is not callable")
        if not isinstance(self.module, torch.nn.Module):
            raise TypeError("Model is not a torch.nn.Module")
        if dtype is not None:
            narrow(self.module, dtype)
        self.drew = False
        self.built_state = [(n, "parameter", p.detach().clone()) for n, p in self.module.named_parameters()] + \
                           [(n, "buffer", b.detach().clone()) for n, b in self.module.named_buffers()]
        self.snapshot = Snapshot(self.module, device)

    def run(self, inputs, seed, mode=None, change=None, keep=True):
        """(outputs, inputs afterwards) in the task's own dtype; `mode` is a context for the forward call.

        `change(name, tensor)` may write to parameters and buffers first. Sets `drew`: whether the call drew random numbers.
        Without `keep` forward gets the inputs themselves, and may write to them.
        """
        self.snapshot.restore(double=False)
        if keep:
            inputs = clone_tree(inputs)
        with torch.no_grad(), quiet(), self.place():
            for name, tensor in (*self.module.named_parameters(), *self.module.named_buffers()) if change else ():
                change(name, tensor)
            seed_all(seed)
            before = generators()
            with mode or contextlib.nullcontext():
                outputs = self.module(*inputs)
            self.drew = generators() != before
            return outputs, inputs

    def gold(self, inputs, seed, shake=None, mode=None):
        """(outputs, inputs afterwards) in float64.

        `shake(tree)` changes inputs and parameters first; `mode` is a context for the forward call (see tolerance).
        """
        self.snapshot.restore(double=True)
        inputs = double_tree(inputs)
        with torch.no_grad(), quiet(), default_dtype(torch.float64), self.place(), InDouble():
            if shake is not None:
                inputs = shake(inputs)
                for tensor in (*self.module.parameters(), *self.module.buffers()):
                    if tensor.dtype.is_floating_point:
                        tensor.copy_(shake(tensor))
            seed_all(seed)
            with mode or contextlib.nullcontext():
                return self.module(*inputs), inputs

    def state(self):
        """[(name, kind, tensor)]: parameters, then buffers, as built."""
        return self.built_state
