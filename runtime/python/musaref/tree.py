"""Values ↔ the JSON trees of docs/protocols.md §1, tensors ↔ bytes in files of the run folder."""

import math
import os

import torch

from .errors import TaskError

DTYPES = {
    name: getattr(torch, name)
    for name in ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64", "bool",
                 "complex64", "complex128")
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
ALIGNMENT = 256
MAX_NODES = 100_000


def dtype_name(dtype):
    return NAMES.get(dtype, str(dtype).removeprefix("torch."))


def number(value):
    """A JSON number, or "nan", "inf", "-inf" as strings."""
    value = float(value)
    if math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")


def reach(tensor):
    """Elements from the first to one past the last that the strides reach."""
    if tensor.numel() == 0:
        return 0
    return sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=False)) + 1


def encode(value, place=None):
    """The tree of a value. `place(tensor)` gives the extra keys of a tensor's node; without it only shapes are told."""
    if isinstance(value, torch.Tensor):
        node = {"t": "tensor", "dtype": dtype_name(value.dtype), "shape": list(value.shape),
                "strides": list(value.stride()) if value.layout == torch.strided else []}
        if place is not None:
            node.update(place(value))
        return node
    if value is None:
        return {"t": "none"}
    if isinstance(value, bool):
        return {"t": "bool", "v": value}
    if isinstance(value, int):
        return {"t": "int", "v": int(value)}
    if isinstance(value, float):
        return {"t": "float", "v": number(value)}
    if isinstance(value, str):
        return {"t": "str", "v": value}
    if isinstance(value, torch.dtype):
        return {"t": "dtype", "v": dtype_name(value)}
    if isinstance(value, dict) and all(isinstance(k, str) for k in value):
        return {"t": "dict", "keys": list(value), "items": [encode(v, place) for v in value.values()]}
    if isinstance(value, (list, torch.Size)):
        return {"t": "list", "items": [encode(v, place) for v in value]}
    if isinstance(value, tuple):
        return {"t": "tuple", "items": [encode(v, place) for v in value]}
    return {"t": "other", "type": f"{type(value).__module__}.{type(value).__qualname__}"}


class FileWriter:
    """Packs tensors into one file of the run folder; `place` is what `encode` wants."""

    def __init__(self, run_dir, name):
        self.name = name
        self._file = open(os.path.join(run_dir, name), "wb")  # noqa: SIM115  closed by close()
        self._at = 0

    def place(self, tensor):
        tensor = tensor.detach()
        count = reach(tensor)
        offset = -(-self._at // ALIGNMENT) * ALIGNMENT
        self._file.seek(offset)
        if count:
            flat = torch.as_strided(tensor.resolve_conj().resolve_neg(), (count,), (1,))
            data = flat.view(torch.uint8).numpy()
            self._file.write(memoryview(data))
        size = count * tensor.element_size()
        self._at = offset + size
        return {"file": self.name, "offset": offset, "nbytes": size, "storage_nbytes": size}

    def close(self):
        self._file.truncate(self._at)
        self._file.close()


def writable(tensor, device="cpu"):
    """Whether the tensor's bytes can be laid into a file (or the memory of `device`) as they are."""
    return tensor.layout == torch.strided and tensor.dtype in NAMES and tensor.device.type == torch.device(device).type


class OnCpu:
    """Stands for a tensor that a candidate left on the CPU: there is nothing to read."""

    def __init__(self, node):
        self.node = node


def _bad(message):
    return TaskError("infra:bad_request", message)


def layout_of(node):
    """(dtype, shape, strides) of a tensor's node; contiguous strides where it tells none. Errors: infra:bad_request."""
    dtype = DTYPES.get(node.get("dtype"))
    if dtype is None:
        raise _bad(f"tensor of unknown dtype {node.get('dtype')!r}")
    shape, strides = node.get("shape"), node.get("strides")
    ok = isinstance(shape, list) and all(type(n) is int and 0 <= n < 1 << 48 for n in shape) and len(shape) <= 64
    if strides is None and ok:
        strides = list(torch.empty(shape, device="meta").stride())
    if not ok or not isinstance(strides, list) or len(strides) != len(shape):
        raise _bad("tensor with malformed shape or strides")
    if not all(type(n) is int and 0 <= n < 1 << 48 for n in strides):
        raise _bad("tensor with malformed strides")
    return dtype, shape, strides


def read_tensor(node, run_dir):
    """A tensor of a tree. Errors: infra:bad_request when the place does not fit shape, strides and file."""
    dtype, shape, strides = layout_of(node)
    if 0 in shape:
        return torch.empty(shape, dtype=dtype)
    if "file" not in node:
        if node.get("device") == "cpu":
            return OnCpu(node)
        raise _bad("tensor without a place in a file")
    count = sum((n - 1) * s for n, s in zip(shape, strides, strict=False)) + 1
    item = torch.empty(0, dtype=dtype).element_size()
    offset, path = node.get("offset"), os.path.join(run_dir, os.path.basename(str(node["file"])))
    if type(offset) is not int or offset < 0:
        raise _bad("tensor with a malformed offset")
    try:
        with open(path, "rb") as file:
            data = b""
            if offset + count * item <= os.fstat(file.fileno()).st_size:
                file.seek(offset)
                data = bytearray(file.read(count * item))
    except OSError as error:
        raise _bad(f"cannot read {node['file']}: {error}") from None
    if len(data) < count * item:
        raise _bad(f"{node['file']} ends before the {count * item} bytes at {offset}")
    return torch.frombuffer(data, dtype=dtype, count=count).as_strided(shape, strides)


def decode(node, run_dir, budget=None, read=read_tensor):
    """The value of a tree. `{"t":"other"}` comes back as its own node (a dict with the key "t").

    `read(node, run_dir)` makes the tensors.
    """
    budget = [MAX_NODES] if budget is None else budget
    budget[0] -= 1
    if budget[0] < 0 or not isinstance(node, dict):
        raise _bad("malformed tree")
    kind = node.get("t")
    if kind == "tensor":
        return read(node, run_dir)
    if kind == "none":
        return None
    if kind in ("int", "bool", "str"):
        return {"int": int, "bool": bool, "str": str}[kind](node["v"])
    if kind == "float":
        return float(node["v"])
    if kind == "dtype":
        return DTYPES.get(node.get("v"), node)
    if kind in ("list", "tuple"):
        items = [decode(item, run_dir, budget, read) for item in node.get("items", [])]
        return items if kind == "list" else tuple(items)
    if kind == "dict":
        keys, items = node.get("keys", []), node.get("items", [])
        if len(keys) != len(items):
            raise _bad("malformed dict in a tree")
        return {str(k): decode(v, run_dir, budget, read) for k, v in zip(keys, items, strict=False)}
    return node


def leaves(value, path=""):
    """Yields (path, leaf) in order; containers are lists, tuples and dicts."""
    if isinstance(value, dict) and value.get("t") != "other":
        for key, item in value.items():
            yield from leaves(item, f"{path}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            yield from leaves(item, f"{path}[{i}]")
    else:
        yield path, value


def tree_map(function, value):
    """The same containers with `function` applied to every tensor."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, dict):
        return {k: tree_map(function, v) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(tree_map(function, v) for v in value))
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return type(value)(tree_map(function, v) for v in value)
    return value


def nbytes(value):
    return sum(t.numel() * t.element_size() for _, t in leaves(value) if isinstance(t, torch.Tensor))
