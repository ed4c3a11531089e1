"""Unit tests that a task file brings along, and what they do to its inputs (docs/data.md, "Unit tests of tasks").

    MUSACODER_CASES = [
        {"name": "unaligned rows", "set": {"rows": 67}},
        {"name": "all zero", "values": "zeros"},
        {"name": "far from zero", "values": [1000.0, 1001.0]},
        {"name": "transposed", "layout": "transposed"},
        {"name": "half precision", "dtype": "float16"},
    ]

    cases_of(module)                          # as the `open` reply tells them; a malformed one is a TaskError
    Variant.parse({"layout": "strided"})      # what of a case is not a size
    variant.apply(inputs)                     # the inputs in that dtype and layout

Values come from the task's own random calls (distributions.Draw), so that masks, labels and structure stay; dtype and layout are given
to the finished inputs. A result in another dtype or layout than the task's own inputs have is advice, not a fault: no answer to the task
had to expect it. So is one for no elements at all, for which most kernels cannot even be launched. "required" makes such a case count.
"""

import math
from dataclasses import dataclass

import torch

from .distributions import CASE_VALUES
from .errors import TaskError
from .tree import leaves, tree_map

MOST = 8
KEYS = ("name", "set", "values", "layout", "dtype", "required")
LAYOUTS = ("transposed", "strided")
DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
LARGEST_SIZE = 1 << 40


@dataclass(frozen=True)
class Variant:
    """How a case's inputs differ from the task's own; nothing set: not at all."""

    values: object = ""     # a name in distributions.CASE_VALUES, or (low, high)
    layout: str = ""
    dtype: str = ""

    @classmethod
    def parse(cls, given, where="", status="infra:bad_request"):
        """From a dict with the keys values, layout and dtype, each of which may be missing."""
        def refuse(text):
            raise TaskError(status, where + text)

        if not isinstance(given, dict):
            refuse(f"a dict is wanted, not {given!r}")
        unknown = [k for k in given if k not in ("values", "layout", "dtype")]
        if unknown:
            refuse(f"unknown key {unknown[0]!r}")
        values = given.get("values", "")
        if isinstance(values, (list, tuple)):
            if len(values) != 2 or not all(type(v) in (int, float) and abs(v) <= 1e30 for v in values) or not values[0] < values[1]:
                refuse(f"'values' as a range is [low, high] with low below high, not {values!r}")
            values = tuple(float(v) for v in values)
        elif "values" in given and values not in CASE_VALUES:
            refuse(f"'values' is one of {', '.join(CASE_VALUES)}, or [low, high], not {values!r}")
        for key, known in (("layout", LAYOUTS), ("dtype", tuple(DTYPES))):
            if key in given and given[key] not in known:
                refuse(f"{key!r} is one of {', '.join(known)}, not {given[key]!r}")
        return cls(values, given.get("layout", ""), given.get("dtype", ""))

    def tell(self):
        """The dict that `parse` reads, for JSON."""
        told = {"values": list(self.values) if isinstance(self.values, tuple) else self.values, "layout": self.layout, "dtype": self.dtype}
        return {k: v for k, v in told.items() if v}

    @property
    def torch_dtype(self):
        return DTYPES.get(self.dtype)

    def apply(self, inputs):
        """The inputs, float32 tensors in the case's dtype, all tensors in its layout. Shapes and values stay, but for rounding."""
        if self.dtype:
            inputs = tree_map(lambda t: t.to(self.torch_dtype) if t.dtype == torch.float32 else t, inputs)
        if self.layout:
            inputs = tree_map({"transposed": transposed, "strided": strided}[self.layout], inputs)
        return inputs

    def unfit(self, inputs, drawn, state):
        """Why the case is none of this task, given what `apply` made, or an empty string.

        `drawn`: how many random float tensors the task drew; `state`: the module's parameters and buffers.
        """
        tensors = [t for _, t in leaves(inputs) if isinstance(t, torch.Tensor)]
        if self.values and drawn == 0:
            return "the task draws no random float inputs, which the case's values would be"
        if self.layout and all(t.is_contiguous() for t in tensors):
            return f"no input of the task can be laid out {self.layout}"
        if self.dtype and all(t.dtype != self.torch_dtype for t in (*tensors, *state)):
            return f"nothing of the task is float32, in whose place {self.dtype} would come"
        return ""


OWN = Variant()


def transposed(t):
    """The same tensor with its last two dimensions the other way round in memory."""
    if t.dim() < 2 or t.layout != torch.strided:
        return t
    return t.transpose(-1, -2).contiguous().transpose(-1, -2)


def strided(t):
    """The same tensor as every second element of a larger one. What lies between is NaN, where the dtype has one: whoever reads it is seen."""
    if t.dim() == 0 or t.layout != torch.strided:
        return t
    between = math.nan if t.is_floating_point() or t.is_complex() else 0
    out = t.new_full((*t.shape, 2), between)[..., 0]
    return out.copy_(t)


def cases_of(task, constants=None):
    """The cases of a task's module: [{"name", "set", "inputs": Variant.tell(), "counts"}]. Errors: invalid_task:interface.

    `constants`: the names that "set" may use, where they are known.
    """
    cases = getattr(task, "MUSACODER_CASES", [])
    if not isinstance(cases, list):
        raise _malformed("", f"a list of dicts is wanted, not a {type(cases).__name__}")
    if len(cases) > MOST:
        raise _malformed("", f"{len(cases)} cases, and at most {MOST} are allowed")
    return [_case(case, f"[{i}]", constants) for i, case in enumerate(cases)]


def _malformed(where, text):
    return TaskError("invalid_task:interface", f"MUSACODER_CASES{where}: {text}")


def _case(case, where, constants):
    if not isinstance(case, dict):
        raise _malformed(where, f"a dict is wanted, not {case!r}")
    unknown = [k for k in case if k not in KEYS]
    if unknown:
        raise _malformed(where, f"unknown key {unknown[0]!r}; known are {', '.join(KEYS)}")
    name = case.get("name")
    if not isinstance(name, str) or not name.strip():
        raise _malformed(where, "'name' is a text that says what is special")
    where += f" ('{name[:40]}')"
    sizes = case.get("set", {})
    if not isinstance(sizes, dict) or not all(isinstance(k, str) and type(v) is int and 0 <= v < LARGEST_SIZE for k, v in sizes.items()):
        raise _malformed(where, f"'set' is a dict of constants' names and sizes, integers from 0 on, not {sizes!r}")
    stranger = next((k for k in sizes if constants is not None and k not in constants), None)
    if stranger is not None:
        raise _malformed(where, f"the task file has no size constant '{stranger}'; it has: {', '.join(sorted(constants)) or 'none'}")
    variant = Variant.parse({k: case[k] for k in ("values", "layout", "dtype") if k in case}, f"MUSACODER_CASES{where}: ", "invalid_task:interface")
    if not sizes and variant == OWN:
        raise _malformed(where, "it changes nothing: 'set', 'values', 'layout' or 'dtype' is wanted")
    required = case.get("required", False)
    if type(required) is not bool:
        raise _malformed(where, f"'required' is True or False, not {required!r}")
    advisory = bool(variant.layout or variant.dtype or 0 in sizes.values())
    return {"name": name.strip()[:80], "set": sizes, "inputs": variant.tell(), "counts": required or not advisory}
