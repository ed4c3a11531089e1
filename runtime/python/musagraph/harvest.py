"""nn.Modules of a Python file as task files: what a class needs of its file, a constructor call and inputs that work.

    harvest(code, "model.py")     # {"tasks": [{"name", "code"}], "dropped": [{"name", "reason"}]}

A class is dropped, with the reason, when it needs other packages, files, the network or global state, when no inputs for it are found, when it
draws random numbers, gives values that are not finite, or takes another way through its operators with other inputs (unstable control flow).
"""

import ast
import builtins
import itertools
import re

import torch
from musaref.source import quiet

PACKAGES = {"torch", "math", "typing", "functools", "collections", "itertools", "dataclasses", "enum", "numbers", "__future__", "abc", "operator"}
# Names whose use means files, the network, other processes or state outside the module.
OUTSIDE = {"open", "exec", "eval", "compile", "input", "__import__", "globals", "breakpoint"}
OUTSIDE_ATTRIBUTES = {"load", "save", "load_state_dict_from_url", "hub", "distributed", "system", "environ", "getenv", "popen", "cuda", "DataLoader"}
SIZES = {"kernel": 3, "stride": 1, "padding": 1, "dilation": 1, "group": 1, "head": 4, "layer": 2, "block": 2, "depth": 2, "expan": 2, "ratio": 2, "reduc": 4, "class": 10, "vocab": 64,
         "len": 16, "size": 32, "seq": 16, "window": 4, "patch": 4, "scale": 2, "eps": 1e-5, "drop": 0.0, "prob": 0.0, "bias": True, "num": 4}
WIDTH = 32
MOST_INPUTS = 3


class Drop(Exception):
    pass


def _names(node):
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _is_module(node, modules):
    for base in node.bases:
        name = base.attr if isinstance(base, ast.Attribute) else base.id if isinstance(base, ast.Name) else ""
        if name == "Module" or name in modules:
            return True
    return False


def _imports(node):
    if isinstance(node, ast.Import):
        return {(a.asname or a.name.split(".")[0]): a.name.split(".")[0] for a in node.names}
    if isinstance(node, ast.ImportFrom):
        return {(a.asname or a.name): ("." if node.level else (node.module or "").split(".")[0]) for a in node.names}
    return {}


class File:
    def __init__(self, code):
        self.code = code
        self.tree = ast.parse(code)
        self.defines = {}     # name → top-level statement
        for node in self.tree.body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                self.defines[node.name] = node
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    for name in _names(target):
                        self.defines[name] = node
            else:
                for name in _imports(node):
                    self.defines[name] = node
        self.modules = []
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef) and _is_module(node, self.modules):
                self.modules.append(node.name)

    def needed(self, name):
        """Source of the top-level statements that a class rests on, in the file's order; imports of what is used alone."""
        found, stack, seen = {}, [name], set()
        while stack:
            here = stack.pop()
            node = self.defines.get(here)
            if node is None or here in seen:
                continue
            seen.add(here)
            package = _imports(node).get(here)
            if package is None:
                self._looks_outside(node)
                stack.extend(_names(node))
            elif package not in PACKAGES:
                raise Drop(f"needs another package: {package}")
            found.setdefault(node, set()).add(here)
        return [self._text(n, found[n]) for n in self.tree.body if n in found]

    def _text(self, node, used):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            alone = type(node)(**{**{f: getattr(node, f) for f in node._fields}, "names": [a for a in node.names if (a.asname or a.name.split(".")[0] if isinstance(node, ast.Import) else a.asname or a.name) in used]})
            return ast.unparse(alone)
        # Decorators stand before what get_source_segment gives.
        return ast.unparse(node) if getattr(node, "decorator_list", None) else ast.get_source_segment(self.code, node)

    @staticmethod
    def _looks_outside(node):
        for n in ast.walk(node):
            if isinstance(n, ast.Name) and n.id in OUTSIDE:
                raise Drop(f"uses what is outside of it: {n.id}")
            if isinstance(n, ast.Attribute) and n.attr in OUTSIDE_ATTRIBUTES:
                raise Drop(f"uses what is outside of it: {n.attr}")
            if isinstance(n, (ast.Global, ast.Nonlocal)):
                raise Drop("uses what is outside of it: global state")


def _function(node, name):
    return next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == name), None)


def _guess(argument):
    """A value for a constructor's argument by its name and annotation."""
    name = argument.arg.lower()
    kind = argument.annotation.id if isinstance(argument.annotation, ast.Name) else ""
    if kind == "bool" or name.startswith(("use_", "with_", "is_")):
        return True
    for part, value in SIZES.items():
        if part in name and not (kind == "float" and isinstance(value, int)):
            return value
    if kind in ("float",) or name in ("alpha", "beta", "gamma", "p", "temperature", "negative_slope"):
        return 0.5
    if kind in ("str",) or kind and kind not in ("int",):
        raise Drop(f"cannot be given inputs: argument '{argument.arg}' of type {kind}")
    return WIDTH


def _required(function):
    if function is None:
        return []
    arguments = function.args.args[1:]
    return arguments[:len(arguments) - len(function.args.defaults)] if function.args.defaults else arguments


def _widths(module):
    """Sizes of the last and of the second axis that the first layers ask for."""
    last, channels = [], []
    for part in module.modules():
        for name, where in (("in_features", last), ("in_channels", channels), ("num_features", channels), ("num_channels", channels), ("input_size", last), ("embed_dim", last)):
            value = getattr(part, name, None)
            if isinstance(value, int):
                where.append(value)
        shape = getattr(part, "normalized_shape", None)
        if isinstance(shape, tuple) and shape:
            last.append(shape[-1])
    return last[:1] or [WIDTH], channels[:1]


def _shapes(module):
    last, channels = _widths(module)
    for c in channels:
        yield from ((4, c, 16, 16), (4, c, 64), (2, c, 8, 8, 8), (16, c))
    for d in last:
        yield from ((16, d), (4, 16, d), (2, 4, 16, d), (16, 4, d))
    if not channels:
        yield from ((4, 8, 16, 16), (2, 4, 8, 8, 8), (64,))


class _Ways:
    """The operators of a call, in order."""

    def __new__(cls, module, inputs):
        from .trace import Recorder
        recorder = Recorder({})
        with torch.no_grad(), quiet(), recorder:
            out = module(*inputs)
        return [n["op"] for n in recorder.nodes], out


def _leaves(out):
    return [t for t in (out if isinstance(out, (list, tuple)) else [out]) if isinstance(t, torch.Tensor)]


def _works(make, shapes, integer):
    """Whether a call gives finite values, twice the same, by the same way with other inputs. Raises Drop where it will not do."""
    def inputs(seed):
        torch.manual_seed(seed)
        return [torch.randint(0, 16, s) if integer else torch.randn(s) for s in shapes]
    torch.manual_seed(42)
    module = make()
    try:
        first_way, first = _Ways(module, inputs(1))
    except Drop:
        raise
    except Exception:  # these shapes do not fit; others may
        return False
    outs = _leaves(first)
    if not outs or all(o.numel() == 0 for o in outs):
        return False
    if any(o.is_floating_point() and not torch.isfinite(o).all() for o in outs):
        raise Drop("gives values that are not finite")
    torch.manual_seed(42)
    module, given = make(), inputs(1)
    torch.manual_seed(7)
    _, again = _Ways(module, given)
    if any(not torch.equal(a, b) for a, b in zip(outs, _leaves(again), strict=False)):
        raise Drop("draws random numbers, or is not deterministic")
    torch.manual_seed(42)
    for scale in (2, 3):
        other_way, _ = _Ways(make(), inputs(scale) if integer else [t * scale for t in inputs(scale)])
        if other_way != first_way:
            raise Drop("has unstable control flow: other inputs, other operators")
    return True


def _task(file, name):
    node = file.defines[name]
    forward = _function(node, "forward")
    if forward is None:
        raise Drop("has no forward of its own")
    if forward.args.vararg or forward.args.kwarg and not forward.args.args[1:]:
        raise Drop("cannot be given inputs: forward takes any number of them")
    text = "\n\n".join(file.needed(name))
    space = {"__name__": "harvested", "__builtins__": builtins}
    with quiet():
        exec(compile(text, "<harvested>", "exec", dont_inherit=True), space)
    arguments = [_guess(a) for a in _required(_function(node, "__init__"))]

    def make():
        with quiet():
            return space[name](*arguments)
    try:
        torch.manual_seed(42)
        module = make()
    except Exception as error:
        raise Drop(f"cannot be constructed: {type(error).__name__}") from None
    wanted = max(1, len(_required(forward)))
    if wanted > MOST_INPUTS:
        raise Drop(f"cannot be given inputs: forward takes {wanted}")
    integer = any(isinstance(p, (torch.nn.Embedding, torch.nn.EmbeddingBag)) for p in itertools.islice(module.modules(), 3))
    for shape in _shapes(module):
        shapes = [(4, 16)] if integer else [shape] * wanted
        if _works(make, shapes, integer):
            break
        if integer:
            raise Drop("cannot be given inputs: none of the shapes that were tried fits")
    else:
        raise Drop("cannot be given inputs: none of the shapes that were tried fits")
    renamed = re.sub(rf"\b{re.escape(name)}\b", "Model", text) if name != "Model" else text
    if "import torch\n" not in renamed + "\n":
        renamed = "import torch\n" + renamed
    drawn = "torch.randint(0, 16, {0})" if integer else "torch.randn{0}"
    made = ", ".join(drawn.format(s if len(s) > 1 else f"({s[0]},)") for s in shapes)
    code = f"{renamed}\n\n\ndef get_inputs():\n    return [{made}]\n\n\ndef get_init_inputs():\n    return {arguments!r}\n"
    return {"name": re.sub(r"\W", "_", name), "code": code}


def harvest(code, path):
    try:
        file = File(code)
    except (SyntaxError, ValueError, RecursionError) as error:
        return {"tasks": [], "dropped": [{"name": "", "reason": f"is not Python: {error}"[:200]}]}
    tasks, dropped = [], []
    for name in file.modules:
        try:
            tasks.append(_task(file, name))
        except Drop as drop:
            dropped.append({"name": name, "reason": str(drop)})
        except Exception as error:  # whatever a user's module does
            dropped.append({"name": name, "reason": f"does not execute: {type(error).__name__}: {error}"[:200]})
    return {"tasks": tasks, "dropped": dropped}
