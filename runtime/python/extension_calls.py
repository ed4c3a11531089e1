"""Built extensions as Python modules: what pybind11 would do, over the flat argument lists of torch.ops.musacoder.call.

    module = extension_calls.load(ops, "/cache/ab12….so")
    y = module.forward(x, 1e-5)
"""

import json
import os
import types

import torch

(_NONE, _TENSOR, _INT, _DOUBLE, _BOOL, _STRING, _COMPLEX, _DTYPE, _DEVICE, _LAYOUT, _MEMORY_FORMAT, _INTS, _DOUBLES, _BOOLS,
 _TENSORS, _VALUES) = range(16)
device_type = "cuda"   # what candidates call the device; set by the device's module
_SCALAR_TYPES = {
    torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.float16: 5, torch.float32: 6,
    torch.float64: 7, torch.complex32: 8, torch.complex64: 9, torch.complex128: 10, torch.bool: 11, torch.bfloat16: 15,
    torch.float8_e5m2: 23, torch.float8_e4m3fn: 24, torch.uint16: 27, torch.uint32: 28, torch.uint64: 29}
_DTYPES = {number: dtype for dtype, number in _SCALAR_TYPES.items()}
_MEMORY_FORMATS = {torch.contiguous_format: 0, torch.preserve_format: 1, torch.channels_last: 2, torch.channels_last_3d: 3}
_SHOWN_TYPES = {"Tensor": "torch.Tensor", "ScalarType": "torch.dtype", "Device": "torch.device", "Layout": "torch.layout",
                "MemoryFormat": "torch.memory_format", "Scalar": "Union[int, float, complex, bool]"}


class _Mismatch(Exception):
    """An argument does not fit its parameter."""


class _Flat:
    """The argument lists of torch.ops.musacoder.call."""

    def __init__(self):
        self.kinds, self.tensors, self.ints, self.floats, self.strings = [], [], [], [], []


def _as_int(value, bits, signed):
    if isinstance(value, float):
        raise _Mismatch
    try:
        number = value.__index__()
    except (AttributeError, TypeError, RuntimeError):
        try:
            if isinstance(value, (str, bytes)):
                raise _Mismatch
            number = int(value)
        except (TypeError, ValueError, RuntimeError):
            raise _Mismatch from None
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if not low <= number <= high:
        raise _Mismatch
    return number - (1 << 64) if number >= 1 << 63 else number


def _as_float(value):
    if isinstance(value, (str, bytes)) or value is None:
        raise _Mismatch
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        raise _Mismatch from None


def _as_bool(value):
    if value is None:
        return False
    try:
        return bool(value) if hasattr(type(value), "__bool__") else _raise_mismatch()
    except RuntimeError:
        raise _Mismatch from None


def _raise_mismatch():
    raise _Mismatch


def _put(flat, kind, value):
    """Appends a value of type text `kind`, converted as pybind11 and torch's own casters do."""
    if kind.endswith("?"):
        if value is None:
            flat.kinds.append(_NONE)
            return
        kind = kind[:-1]
    if kind.endswith("]"):
        element, _, count = kind[:-1].partition("[")
        if isinstance(value, (str, bytes, dict, set)) or not (hasattr(value, "__len__") and hasattr(value, "__getitem__")):
            raise _Mismatch
        if isinstance(value, torch.Tensor):
            raise _Mismatch
        items = list(value)
        if count and len(items) != int(count):
            raise _Mismatch
        if element == "Tensor":
            if not all(isinstance(item, torch.Tensor) for item in items):
                raise _Mismatch
            flat.kinds += [_TENSORS, len(items)]
            flat.tensors += items
        elif element == "float":
            flat.floats += [_as_float(item) for item in items]
            flat.kinds += [_DOUBLES, len(items)]
        elif element == "bool":
            flat.ints += [int(_as_bool(item)) for item in items]
            flat.kinds += [_BOOLS, len(items)]
        else:
            flat.ints += [_as_int(item, *_int_form(element)) for item in items]
            flat.kinds += [_INTS, len(items)]
        return
    if kind == "Tensor":
        if not isinstance(value, torch.Tensor):
            raise _Mismatch
        flat.kinds.append(_TENSOR)
        flat.tensors.append(value)
    elif kind == "float":
        flat.floats.append(_as_float(value))
        flat.kinds.append(_DOUBLE)
    elif kind == "bool":
        flat.ints.append(int(_as_bool(value)))
        flat.kinds.append(_BOOL)
    elif kind == "str":
        if not isinstance(value, (str, bytes)):
            raise _Mismatch
        flat.strings.append(value if isinstance(value, str) else value.decode())
        flat.kinds.append(_STRING)
    elif kind == "ScalarType":
        if not isinstance(value, torch.dtype):
            raise _Mismatch
        flat.ints.append(_SCALAR_TYPES[value])
        flat.kinds.append(_DTYPE)
    elif kind == "Device":
        if not isinstance(value, torch.device):
            raise _Mismatch
        flat.ints += [1 if value.type in ("vgpu", device_type) else 0, -1 if value.index is None else value.index]
        flat.kinds.append(_DEVICE)
    elif kind == "Layout":
        if value is not torch.strided:
            raise _Mismatch
        flat.ints.append(0)
        flat.kinds.append(_LAYOUT)
    elif kind == "MemoryFormat":
        if value not in _MEMORY_FORMATS:
            raise _Mismatch
        flat.ints.append(_MEMORY_FORMATS[value])
        flat.kinds.append(_MEMORY_FORMAT)
    elif kind == "Scalar":
        if isinstance(value, torch.Tensor) and value.dim() == 0:
            value = value.item()
        if isinstance(value, bool):
            flat.kinds.append(_BOOL)
            flat.ints.append(int(value))
        elif isinstance(value, int):
            flat.kinds.append(_INT)
            flat.ints.append(_as_int(value, 64, True))
        elif isinstance(value, float):
            flat.kinds.append(_DOUBLE)
            flat.floats.append(value)
        elif isinstance(value, complex):
            flat.kinds.append(_COMPLEX)
            flat.floats += [value.real, value.imag]
        else:
            raise _Mismatch
    else:
        flat.ints.append(_as_int(value, *_int_form(kind)))
        flat.kinds.append(_INT)


def _int_form(kind):
    return int(kind.lstrip("uint")), not kind.startswith("u")


def _stored(pair):
    """The Python value of a default or an attribute."""
    kind, value = pair
    if kind == _DOUBLE:
        return float(value)
    if kind == _BOOL:
        return bool(value)
    if kind == _COMPLEX:
        return complex(float(value[0]), float(value[1]))
    if kind == _DTYPE:
        return _DTYPES.get(value)
    if kind == _DEVICE:
        return torch.device(device_type if value[0] == 1 else "cpu", *([value[1]] if value[1] >= 0 else []))
    if kind == _DOUBLES:
        return [float(item) for item in value]
    if kind == _MEMORY_FORMAT:
        return {number: form for form, number in _MEMORY_FORMATS.items()}[value]
    return value


def _read(result):
    """The Python value of a call's flat result. Leaves no reference cycle behind: outputs must go when their last user goes."""
    return _next_value(*(iter(part) for part in result))


def _next_value(kinds, tensors, ints, floats, strings):
    kind = next(kinds)
    if kind == _NONE:
        return None
    if kind == _TENSOR:
        return next(tensors)
    if kind == _DOUBLE:
        return next(floats)
    if kind == _BOOL:
        return bool(next(ints))
    if kind == _STRING:
        return next(strings)
    if kind == _COMPLEX:
        return complex(next(floats), next(floats))
    if kind == _DTYPE:
        return _DTYPES.get(next(ints))
    if kind == _DEVICE:
        type_, index = next(ints), next(ints)
        return torch.device(device_type if type_ == 1 else "cpu", *([index] if index >= 0 else []))
    if kind in (_TENSORS, _VALUES):
        items = [_next_value(kinds, tensors, ints, floats, strings) for _ in range(next(kinds))]
        return items if kind == _TENSORS else tuple(items)
    if kind == _DOUBLES:
        return [next(floats) for _ in range(next(kinds))]
    if kind == _INTS:
        return [next(ints) for _ in range(next(kinds))]
    if kind == _BOOLS:
        return [bool(next(ints)) for _ in range(next(kinds))]
    value = next(ints)
    if kind == _MEMORY_FORMAT:
        return {number: form for form, number in _MEMORY_FORMATS.items()}[value]
    return torch.strided if kind == _LAYOUT else value


def _shown_type(kind):
    if kind.endswith("?"):
        return f"Optional[{_shown_type(kind[:-1])}]"
    if kind.endswith("]"):
        return f"List[{_shown_type(kind.partition('[')[0])}]"
    if kind.startswith("("):
        return f"Tuple[{', '.join(_shown_type(part) for part in kind[1:-1].split(', '))}]"
    if kind in _SHOWN_TYPES:
        return _SHOWN_TYPES[kind]
    return "int" if kind.lstrip("u").startswith("int") else kind


class _Overload:
    def __init__(self, index, description):
        self.index = index
        self.parameters = [(p["name"] or f"arg{i}", bool(p["name"]), p["type"], p.get("default"))
                           for i, p in enumerate(description["parameters"])]
        self.kinds = [p[2] for p in self.parameters]
        shown = ", ".join(f"{name}: {_shown_type(kind)}" + ("" if default is None else f" = {_stored(default)!r}")
                          for name, _, kind, default in self.parameters)
        self.signature = f"({shown}) -> {_shown_type(description['returns'])}"

    def flatten(self, args, kwargs):
        if len(args) > len(self.parameters):
            raise _Mismatch
        flat = _Flat()
        used = 0
        for i, (name, by_name, kind, default) in enumerate(self.parameters):
            if i < len(args):
                if by_name and name in kwargs:
                    raise _Mismatch
                value = args[i]
            elif by_name and name in kwargs:
                value = kwargs[name]
                used += 1
            elif default is not None:
                value = _stored(default)
            else:
                raise _Mismatch
            _put(flat, kind, value)
        if used != len(kwargs):
            raise _Mismatch
        return flat


def _show(value):
    if isinstance(value, torch.Tensor):
        return f"tensor of shape {tuple(value.shape)}, {value.dtype}, on {value.device}"
    return repr(value)[:200]


def _make_function(call, handle, name, overloads, doc):

    def function(*args, **kwargs):
        for overload in overloads:
            try:
                flat = overload.flatten(args, kwargs)
            except _Mismatch:
                continue
            with torch._C.DisableTorchFunction():
                result = call(handle, overload.index, flat.kinds, flat.tensors, flat.ints, flat.floats, flat.strings)
            return _read(result)
        raise TypeError(
            f"{name}(): incompatible function arguments. The following argument types are supported:\n"
            + "\n".join(f"    {i}. {overload.signature}" for i, overload in enumerate(overloads, 1))
            + "\n\nInvoked with: " + ", ".join(map(_show, args))
            + (("; " if args else "") + "kwargs: " + ", ".join(f"{k}={_show(v)}" for k, v in kwargs.items()) if kwargs else ""))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "\n".join(f"{name}{overload.signature}" for overload in overloads) + (f"\n\n{doc}" if doc else "")
    return function


def load(ops, path):
    """The module of a built extension: its functions as callables, its attributes, its docstring.

    Arguments are converted as pybind11 does; what does not fit raises TypeError ("incompatible function arguments").
    A shared object that cannot be loaded raises ImportError. `ops` holds torch.ops.musacoder's `load_extension` and `call`.
    """
    try:
        description = json.loads(ops.load_extension(str(path)))
    except RuntimeError as error:
        raise ImportError(str(error)) from None
    module = types.ModuleType(os.path.basename(str(path)).split(".")[0], description["doc"] or None)
    module.__file__ = str(path)
    by_name = {}
    for index, function in enumerate(description["functions"]):
        by_name.setdefault(function["name"], []).append((index, function))
    for name, found in by_name.items():
        overloads = [_Overload(index, function) for index, function in found]
        setattr(module, name, _make_function(ops.call, description["handle"], name, overloads, found[0][1]["doc"]))
    for name, value in description["attributes"]:
        setattr(module, name, _stored(value))
    return module


