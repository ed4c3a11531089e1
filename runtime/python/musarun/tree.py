"""JSON trees (docs/protocols.md, section 1) <-> Python objects.

Decoding serves requests of the judge: tensors come with a device address (inputs) or with a file place (initial arguments,
parameters). Encoding serves what a candidate returned: shapes, strides and addresses, never values.
"""

import math

import torch

DTYPES = {name: getattr(torch, name) for name in (
    "float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64", "bool", "complex64",
    "complex128")}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
MAX_NODES = 4096
MAX_DEPTH = 32
_Tensor = torch.Tensor


def dtype_name(dtype):
    return _NAMES.get(dtype) or str(dtype).removeprefix("torch.")


def read_tensor(node):
    """A CPU tensor from a file place: {"file","offset","nbytes","dtype","shape"[,"strides"]}."""
    dtype = DTYPES[node["dtype"]]
    shape = [int(n) for n in node["shape"]]
    strides = node.get("strides")
    if math.prod(shape) == 0:
        return torch.empty(shape, dtype=dtype)
    with open(node["file"], "rb") as file:
        file.seek(int(node.get("offset", 0)))
        data = bytearray(file.read(int(node["nbytes"])))
    if len(data) != int(node["nbytes"]):
        raise ValueError(f"{node['file']} holds {len(data)} of {node['nbytes']} bytes")
    flat = torch.frombuffer(data, dtype=dtype)
    if strides is None:
        return flat[:math.prod(shape)].reshape(shape)
    return torch.as_strided(flat, shape, [int(n) for n in strides])


def _number(value):
    return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[value] if isinstance(value, str) else float(value)


def decode(node, tensor_at=None):
    """The Python object of a node. tensor_at(address, shape, strides, dtype) makes tensors of device addresses."""
    kind = node["t"]
    if kind == "tensor":
        if "addr" in node:
            return tensor_at(int(node["addr"]), node["shape"], node["strides"], DTYPES[node["dtype"]])
        return read_tensor(node)
    if kind == "int":
        return int(node["v"])
    if kind == "float":
        return _number(node["v"])
    if kind in ("bool", "str"):
        return node["v"]
    if kind == "none":
        return None
    if kind == "dtype":
        return DTYPES[node["v"]]
    if kind == "list":
        return [decode(item, tensor_at) for item in node["items"]]
    if kind == "tuple":
        return tuple(decode(item, tensor_at) for item in node["items"])
    if kind == "dict":
        return dict(zip(node["keys"], (decode(item, tensor_at) for item in node["items"]), strict=True))
    raise ValueError(f"a value of type {node.get('type', kind)} cannot be handed to a candidate")


def arguments(node, tensor_at=None):
    """(args, kwargs) of a top-level node: a dict is passed by keyword, a list or tuple by position."""
    value = decode(node, tensor_at)
    if isinstance(value, dict):
        return (), value
    return (tuple(value), {}) if isinstance(value, (list, tuple)) else ((value,), {})


class Encoder:
    """encode(object) -> node. address_of(tensor) gives the device address, None for a tensor in host memory.

    `tensors` keeps what was seen alive, `nodes` are theirs.
    """

    def __init__(self, address_of):
        self._address_of = address_of
        self.tensors = []
        self.nodes = []      # of these tensors
        self._nodes = 0

    def encode(self, value, depth=0):
        self._nodes += 1
        if self._nodes > MAX_NODES or depth > MAX_DEPTH:
            raise ValueError(f"outputs have more than {MAX_NODES} nodes or {MAX_DEPTH} levels")
        kind = type(value)
        if isinstance(value, _Tensor):
            return self._tensor(value)
        if value is None:
            return {"t": "none"}
        if kind is bool:
            return {"t": "bool", "v": value}
        if kind is int:
            return {"t": "int", "v": value} if abs(value) < 1 << 63 else {"t": "other", "type": "int"}
        if kind is float:
            if math.isfinite(value):
                return {"t": "float", "v": value}
            return {"t": "float", "v": "nan" if value != value else "inf" if value > 0 else "-inf"}
        if kind is str:
            return {"t": "str", "v": value[:4096].encode("utf-8", "replace").decode()}
        if kind is torch.dtype:
            return {"t": "dtype", "v": dtype_name(value)}
        if kind is list:
            return {"t": "list", "items": [self.encode(item, depth + 1) for item in value]}
        if isinstance(value, tuple):  # named tuples too
            return {"t": "tuple", "items": [self.encode(item, depth + 1) for item in tuple.__iter__(value)]}
        if isinstance(value, dict) and all(type(key) is str for key in dict.keys(value)):
            return {"t": "dict", "keys": list(dict.keys(value)),
                    "items": [self.encode(item, depth + 1) for item in dict.values(value)]}
        return {"t": "other", "type": type_name(kind)}

    def _tensor(self, tensor):
        if tensor.layout is not torch.strided:
            return {"t": "other", "type": f"torch.Tensor with layout {tensor.layout}"}
        node = {"t": "tensor", "dtype": dtype_name(tensor.dtype), "shape": list(tensor.shape),
                "strides": list(tensor.stride())}
        if type(tensor) is not _Tensor:
            node["type"] = type_name(type(tensor))
        if tensor.device.type == "meta":
            return {"t": "other", "type": "torch.Tensor on the meta device"}
        address = self._address_of(tensor)
        node["device"] = "cpu" if address is None else "cuda"
        if address is not None:
            node["addr"] = str(int(address))
        self.tensors.append(tensor)
        self.nodes.append(node)
        return node


def type_name(kind):
    module = getattr(kind, "__module__", None)
    name = getattr(kind, "__qualname__", "?")
    return name if module in (None, "builtins") else f"{module}.{name}"
