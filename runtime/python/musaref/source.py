"""A task file as text whose size constants can be replaced, and the namespace that comes from executing it.

    source = TaskSource(code, "level1/19")
    [site.name for site in source.sites]        # ["batch_size", "dim"]
    task = source.execute({source.sites[0].key: 4})
    task.Model, task.get_inputs()

A *site* is a constant integer expression that can set a size: the value of a module-level assignment (or an element of
the tuple or list assigned), or a literal in a shape argument inside `get_inputs` and `get_init_inputs`. Integers inside
classes and other functions are part of the operation and are never sites.
"""

import ast
import builtins
import contextlib
import linecache
import os
import sys
import types
from dataclasses import dataclass, field

from .errors import TaskError

MAX_SOURCE_BYTES = 4 << 20
_SHAPE_CALLS = {
    "rand", "randn", "zeros", "ones", "empty", "full", "randint", "rand_like", "view", "reshape", "Size", "normal", "expand",
    "arange", "randperm", "eye", "linspace", "new_zeros", "new_ones",
}


@dataclass
class Site:
    key: tuple            # (line, column): where the expression starts
    name: str             # "batch_size", "input_shape[1]", "get_inputs:224"
    line: int
    value: int
    context: str = ""     # "module", "get_inputs", "get_init_inputs"
    position: int = -1    # index in a shape, where known
    rank: int = -1        # length of that shape
    aliases: set = field(default_factory=set)  # names of Model.__init__ parameters that it reaches


def constant_int(node):
    """The value of an integer expression made of literals and + - * // ** << unary minus; None for anything else."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = constant_int(node.operand)
        return None if value is None else -value
    if isinstance(node, ast.BinOp):
        left, right = constant_int(node.left), constant_int(node.right)
        if left is None or right is None:
            return None
        operations = {ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b}
        if type(node.op) in operations:
            return operations[type(node.op)](left, right)
        if isinstance(node.op, ast.FloorDiv) and right:
            return left // right
        if isinstance(node.op, ast.Pow) and 0 <= right <= 62 and abs(left) <= 1024:
            return left**right
        if isinstance(node.op, ast.LShift) and 0 <= right <= 62:
            return left << right
    return None


class _Replace(ast.NodeTransformer):
    def __init__(self, values):
        self.values = values

    def generic_visit(self, node):
        key = (getattr(node, "lineno", None), getattr(node, "col_offset", None))
        if key in self.values and isinstance(node, ast.expr) and constant_int(node) is not None:
            return ast.copy_location(ast.Constant(self.values[key]), node)
        return super().generic_visit(node)

    visit = generic_visit


class TaskSource:
    def __init__(self, code, name="task"):
        if len(code) > MAX_SOURCE_BYTES:
            raise TaskError("invalid_task:syntax", f"the task file has {len(code)} bytes; the limit is {MAX_SOURCE_BYTES}")
        self.code = code
        self.filename = f"<task {name}>"
        try:
            self.tree = ast.parse(code, self.filename)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = getattr(error, "lineno", None)
            raise TaskError("invalid_task:syntax", f"the task file is not Python: {error}" +
                            (f" (line {line})" if line and "line" not in str(error) else "")) from None
        linecache.cache[self.filename] = (len(code), None, code.splitlines(True), self.filename)
        self.functions = {n.name: n for n in self.tree.body if isinstance(n, ast.FunctionDef)}
        self.classes = {n.name: n for n in self.tree.body if isinstance(n, ast.ClassDef)}
        missing = [n for n in ("get_inputs",) if n not in self.functions and not self.assigned(n)]
        if "Model" not in self.classes and not self.assigned("Model"):
            missing.insert(0, "Model")
        if missing:
            raise TaskError("invalid_task:interface", f"the task file does not define {' and '.join(missing)}")
        self.sites = self._find_sites()
        self.class_reads_globals = bool(self._class_names() & {s.name.split("[")[0] for s in self.sites})

    def assigned(self, name):
        """Whether the file gives that name a value, or imports it."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store):
                return True
            if isinstance(node, (ast.Import, ast.ImportFrom)) and any((a.asname or a.name) == name for a in node.names):
                return True
        return False

    def _class_names(self):
        """Names that classes and helper functions read; a module constant among them reaches the model directly."""
        names = set()
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef) or (isinstance(node, ast.FunctionDef) and
                                                  node.name not in ("get_inputs", "get_init_inputs")):
                names |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        return names

    def _find_sites(self):
        sites = []
        for node in self.tree.body:
            if isinstance(node, ast.Assign):
                for target in node.targets[:1]:
                    self._assignment(target, node.value, sites)
            elif isinstance(node, ast.AnnAssign) and node.value is not None:
                self._assignment(node.target, node.value, sites)
        for name in ("get_inputs", "get_init_inputs"):
            if name in self.functions:
                self._function(name, self.functions[name], sites)
        self._reach(sites)
        return sites

    @staticmethod
    def _add(sites, name, node, **more):
        value = constant_int(node)
        if value is not None:
            sites.append(Site((node.lineno, node.col_offset), name, node.lineno, value, **{"context": "module", **more}))

    def _assignment(self, target, value, sites, context="module"):
        if isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)):
            for t, v in zip(target.elts, value.elts, strict=False):
                self._assignment(t, v, sites, context)
            return
        if not isinstance(target, ast.Name):
            return
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
            for side in (value.left, value.right):
                if isinstance(side, (ast.List, ast.Tuple)):
                    value = side
                    break
        if isinstance(value, (ast.Tuple, ast.List)):
            for i, element in enumerate(value.elts):
                self._add(sites, f"{target.id}[{i}]", element, context=context, position=i, rank=len(value.elts))
        else:
            self._add(sites, target.id, value, context=context)

    def _function(self, name, node, sites):
        known = {s.key for s in sites}
        for child in ast.walk(node):
            if isinstance(child, ast.Assign):
                for target in child.targets[:1]:
                    self._assignment(target, child.value, sites, context=name)
            elif isinstance(child, ast.Call) and isinstance(child.func, (ast.Attribute, ast.Name)):
                called = child.func.attr if isinstance(child.func, ast.Attribute) else child.func.id
                if called not in _SHAPE_CALLS:
                    continue
                elements = list(child.args)
                if called == "randint":
                    elements = [e for a in elements if isinstance(a, (ast.Tuple, ast.List)) for e in a.elts]
                elif called in ("normal", "full"):
                    elements = next((a.elts for a in elements if isinstance(a, (ast.Tuple, ast.List))), [])
                elif len(elements) == 1 and isinstance(elements[0], (ast.Tuple, ast.List)):
                    elements = elements[0].elts
                for keyword in child.keywords:
                    if keyword.arg == "size" and isinstance(keyword.value, (ast.Tuple, ast.List)):
                        elements = keyword.value.elts
                for i, element in enumerate(elements):
                    value = constant_int(element)
                    if value is not None:
                        self._add(sites, f"{name}:{value}", element, context=name, position=i, rank=len(elements))
        if name == "get_init_inputs":
            parameters = self.init_parameters()
            for child in ast.walk(node):
                if isinstance(child, ast.Return) and isinstance(child.value, (ast.List, ast.Tuple)):
                    for i, element in enumerate(child.value.elts):
                        parts = element.elts if isinstance(element, (ast.Tuple, ast.List)) else [element]
                        label = parameters[i] if i < len(parameters) else f"{name}:{i}"
                        for part in parts:
                            self._add(sites, label, part, context=name)
        unique = {}
        for site in sites:
            unique.setdefault(site.key, site)
        sites[:] = [s for s in unique.values() if s.key in known or s.context == name]

    def init_parameters(self):
        model = self.classes.get("Model")
        for node in model.body if model else ():
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                return [a.arg for a in node.args.args[1:]]
        return []

    def _reach(self, sites):
        """Keeps only sites that get_inputs or get_init_inputs can see; notes which parameters of __init__ they become."""
        reads = {}
        for node in self.tree.body:
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                used = {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)}
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    stored = [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]
                    for name in stored:
                        reads.setdefault(name, set()).update(used | set(stored[:1]))
        frontier = self._class_names()
        for name in ("get_inputs", "get_init_inputs"):
            if name in self.functions:
                frontier |= {n.id for n in ast.walk(self.functions[name]) if isinstance(n, ast.Name)}
            else:
                frontier.add(name)
        reached = set()
        while frontier:
            name = frontier.pop()
            if name not in reached:
                reached.add(name)
                frontier |= reads.get(name, set())
        sites[:] = [s for s in sites if s.context != "module" or s.name.split("[")[0] in reached]
        parameters = self.init_parameters()
        function = self.functions.get("get_init_inputs")
        for node in ast.walk(function) if function else ():
            if isinstance(node, ast.Return) and isinstance(node.value, (ast.List, ast.Tuple)):
                for parameter, element in zip(parameters, node.value.elts, strict=False):
                    if isinstance(element, ast.Name):
                        for site in sites:
                            if site.name.split("[")[0] == element.id:
                                site.aliases.add(parameter)

    def execute(self, values=None):
        """A fresh namespace with sites (by key) replaced. Raises whatever the task's own code raises."""
        tree = self.tree
        if values:
            import copy
            tree = ast.fix_missing_locations(_Replace(values).visit(copy.deepcopy(tree)))
        code = compile(tree, self.filename, "exec", dont_inherit=True)
        module = types.ModuleType("musaref_task")
        module.__file__ = self.filename
        module.__builtins__ = builtins
        sys.modules["musaref_task"] = module
        with quiet():
            exec(code, module.__dict__)
        return module


@contextlib.contextmanager
def quiet():
    """What task code prints goes nowhere: standard output belongs to whoever started the runner."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        yield
