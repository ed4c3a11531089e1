"""Parameters, buffers and plain tensor attributes of a candidate's module.

  describe(module)                  the state list of the `constructed` event
  narrow(module, "float16")         the module with float32 parameters and buffers in another dtype
  load_reference(module, entries)   copies the reference's values by name, compares by value where names differ
  Snapshot(module).restore()        every call of forward starts from the same state, at the same addresses
"""

import torch

from .tree import dtype_name, read_tensor

MAX_SORT = 1 << 24


def named_state(module):
    """name -> (kind, tensor), parameters first, as the reference lists them."""
    found = {}
    for name, tensor in module.named_parameters(remove_duplicate=False):
        found[name] = ("parameter", tensor)
    for name, tensor in module.named_buffers(remove_duplicate=False):
        found[name] = ("buffer", tensor)
    return found


def plain_tensors(module):
    """(owner, key, tensor) of tensors kept as plain attributes, in lists, tuples and dicts one level deep."""
    for part in module.modules():
        for key, value in list(vars(part).items()):
            if key in ("_parameters", "_buffers", "_modules"):
                continue
            if isinstance(value, torch.Tensor):
                yield part, key, value
            elif isinstance(value, (list, tuple)):
                yield from ((value, i, item) for i, item in enumerate(value) if isinstance(item, torch.Tensor))
            elif type(value) is dict:
                yield from ((value, k, item) for k, item in value.items() if isinstance(item, torch.Tensor))


def describe(module):
    return [{"name": name, "kind": kind, "shape": list(tensor.shape), "dtype": dtype_name(tensor.dtype)}
            for name, (kind, tensor) in named_state(module).items()]


def narrow(module, dtype):
    """As the reference's module is converted where a task's case is in another dtype (musaref/reference.py)."""
    dtype = {"float16": torch.float16, "bfloat16": torch.bfloat16}[dtype]
    with torch.no_grad():
        return module._apply(lambda t: t.to(dtype) if t.dtype == torch.float32 else t)


def _same_values(reference, candidate):
    """Equal element for element in some order: a renamed, reshaped or transposed weight made under the same seed."""
    if reference.numel() != candidate.numel():
        return False
    a, b = reference.detach().flatten(), candidate.detach().cpu().flatten().to(reference.dtype)
    if torch.equal(a, b):
        return True
    if a.numel() > MAX_SORT or a.dtype.is_complex or torch.aminmax(a) != torch.aminmax(b):
        return False
    return torch.equal(torch.sort(a).values, torch.sort(b).values)


def load_reference(module, entries):
    """Copies every tensor whose name and shape match. Returns the fields of the `parameters` event.

    unmatched: names of the reference's tensors that found no partner by name and shape, nor by value among the candidate's
    other tensors. Where there are none, the module holds the same weights, if under other names.
    """
    own = named_state(module)
    matched, missing, mismatched, unpaired, unmatched = [], [], [], [], []
    with torch.no_grad():
        for entry in entries:
            name = entry["name"]
            tensor = own[name][1] if name in own else None
            if tensor is not None and list(tensor.shape) == list(entry["shape"]):
                tensor.copy_(read_tensor(entry))
                matched.append(name)
                continue
            if tensor is None:
                missing.append(name)
            else:
                mismatched.append({"name": name, "expected": list(entry["shape"]), "got": list(tensor.shape)})
            unpaired.append(entry)
        extra = [name for name in own if name not in {entry["name"] for entry in entries}]
        if unpaired:
            pool = [tensor for name, (_, tensor) in own.items() if name not in matched]
            pool += [tensor for _, _, tensor in plain_tensors(module)]
            for entry in unpaired:
                reference = read_tensor(entry)
                partner = next((i for i, tensor in enumerate(pool) if _same_values(reference, tensor)), None)
                if partner is None:
                    unmatched.append(entry["name"])
                else:
                    del pool[partner]
    return {"matched": matched, "missing": missing, "extra": extra, "shape_mismatch": mismatched, "unmatched": unmatched}


def adopt_reference(module, entries):
    """For modules that take the reference's state as it is (bare .cu files)."""
    for entry in entries:
        module.adopt(entry["name"], read_tensor(entry), entry.get("kind", "parameter"))
    return {"matched": [entry["name"] for entry in entries], "missing": [], "extra": [], "shape_mismatch": [],
            "unmatched": []}


class Snapshot:
    """The state to which restore() returns: values in place at the same addresses, the same tensor objects in their places.

    Only tensors that were there go back. A cache that a call made (an attribute that was None, a counter) stays, so that
    a replayed result meets fresh inputs and fails.
    """

    def __init__(self, module):
        self._tensors = []   # (tensor, copy)
        self._slots = []     # (mapping, key, original object)
        seen = {}

        def keep(mapping, key, tensor):
            self._slots.append((mapping, key, tensor))
            if id(tensor) not in seen:
                seen[id(tensor)] = tensor
                self._tensors.append((tensor, tensor.detach().clone()))

        with torch.no_grad():
            for part in module.modules():
                for mapping in (part._parameters, part._buffers):
                    for key, tensor in mapping.items():
                        if tensor is not None:
                            keep(mapping, key, tensor)
            for owner, key, tensor in plain_tensors(module):
                if isinstance(owner, tuple):
                    if id(tensor) not in seen:
                        seen[id(tensor)] = tensor
                        self._tensors.append((tensor, tensor.detach().clone()))
                else:
                    keep(vars(owner) if isinstance(owner, torch.nn.Module) else owner, key, tensor)

    def restore(self):
        with torch.no_grad():
            for mapping, key, tensor in self._slots:
                if isinstance(mapping, list):
                    if key < len(mapping) and mapping[key] is not tensor:
                        mapping[key] = tensor
                elif mapping.get(key) is not tensor:
                    mapping[key] = tensor
            for tensor, copy in self._tensors:
                if tensor.shape == copy.shape and tensor.dtype == copy.dtype:
                    tensor.copy_(copy)
                else:
                    tensor.data = copy.clone()
