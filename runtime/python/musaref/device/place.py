"""All tensors of task code on one device, whatever the code says: `cuda()`, `cpu()`, device="cuda" or no device at all.

    with OnDevice(torch.device("cuda")):
        torch.zeros(8)              # on the GPU
        torch.as_tensor(array)      # there as well
        x.cpu()                     # x itself

Tensors that were made on the host before (constants of the task file, parts of a module that nobody registered) are moved
when an operator first meets them, in place: whoever holds the tensor sees it on the device from then on.
"""

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors

_STAYS = {"cuda", "musa", "cpu", "pin_memory"}
_TO_NUMPY = {"numpy", "__array__"}
_READS = {"__get__", "__set__", "__repr__", "__len__", "size", "dim", "stride", "storage_offset", "numel", "data_ptr", "is_floating_point",
          "is_complex", "__format__"}


def _is_device(value):
    if isinstance(value, str):
        return value.split(":")[0] in ("cuda", "musa", "cpu")
    return isinstance(value, torch.device) and value.type in ("cuda", "musa", "cpu", "privateuseone")


class OnDevice(TorchFunctionMode):
    def __init__(self, device):
        super().__init__()
        self.device = torch.device(device)
        self.makers = _device_constructors()

    def elsewhere(self, t):
        return isinstance(t, torch.Tensor) and t.device.type != self.device.type and t.device.type != "meta" and \
            t.layout == torch.strided

    def adopt(self, value, depth=0):
        """Moves the tensors in arguments, in place; those inside lists and tuples too."""
        if self.elsewhere(value):
            with torch.no_grad():
                value.data = value.data.to(self.device)
        elif depth < 3 and isinstance(value, (list, tuple)):
            for item in value:
                self.adopt(item, depth + 1)

    def moved(self, value):
        if self.elsewhere(value):
            return value.to(self.device)
        if type(value) in (list, tuple):
            return type(value)(self.moved(v) for v in value)
        return value

    def _with_own_generator(self, func, name, args, kwargs):
        """A generator lives on one device: its numbers are drawn there and moved here."""
        there = kwargs["generator"].device
        if args and isinstance(args[0], torch.Tensor) and name.endswith("_"):
            drawn = func(torch.empty_like(args[0], device=there), *args[1:], **kwargs)
            return args[0].copy_(drawn)
        args = tuple(a.to(there) if isinstance(a, torch.Tensor) else a for a in args)
        if func in self.makers:
            kwargs = {**kwargs, "device": there}
        return self.moved(func(*args, **kwargs))

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in _READS:
            return func(*args, **kwargs)
        if name in _TO_NUMPY and args and isinstance(args[0], torch.Tensor):
            return func(args[0].to("cpu"), *args[1:], **kwargs)
        if self.device.type != "cpu":
            self.adopt(args)
            if kwargs:
                self.adopt(list(kwargs.values()))
        if name in _STAYS and args and isinstance(args[0], torch.Tensor):
            return args[0]
        generator = kwargs.get("generator")
        if isinstance(generator, torch.Generator) and generator.device.type != self.device.type:
            return self._with_own_generator(func, name, args, kwargs)
        if any(_is_device(a) for a in args):
            args = tuple(self.device if _is_device(a) else a for a in args)
        if "device" in kwargs and _is_device(kwargs["device"]) or func in self.makers and kwargs.get("device") is None:
            kwargs = {**kwargs, "device": self.device}
        if kwargs.get("pin_memory"):
            kwargs = {k: v for k, v in kwargs.items() if k != "pin_memory"}
        return self.moved(func(*args, **kwargs))

