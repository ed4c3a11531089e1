"""Runs a task's module once and writes down every aten operator: inputs, attributes, shape, stride, dtype of results."""

import contextlib
import inspect
import re

import torch
from musaref.reference import call_get_init_inputs, call_get_inputs, seed_all
from musaref.source import TaskSource, quiet
from musaref.trace import MetaHelp, Trace
from musaref.tree import leaves
from torch.utils._python_dispatch import TorchDispatchMode

MAX_NODES = 20000
_SYMBOL = re.compile(r"\bs\d+\b")
# Results are the same numbers elsewhere or under another label: never a node of their own.
_PASS = {"detach", "alias", "lift_fresh", "lift", "resolve_conj", "resolve_neg"}


class TooLarge(Exception):
    pass


def plain(value):
    """An attribute as JSON: numbers, texts, lists; dtypes and the like by name."""
    if isinstance(value, (bool, int, str)) or value is None:
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, torch.SymInt):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return str(value).removeprefix("torch.")


def describe(tensor):
    def size(s):
        text = str(s) if isinstance(s, int) else str(s.node.expr)
        return int(text) if text.lstrip("-").isdigit() else text

    return {"shape": [size(s) for s in tensor.shape], "stride": [size(s) for s in tensor.stride()],
            "dtype": str(tensor.dtype).removeprefix("torch."), "contiguous": bool(tensor.is_contiguous())}


class Recorder(TorchDispatchMode):
    """`nodes` grows while it is entered. A tensor that was not seen before is a leaf: an input, state, or a constant."""

    def __init__(self, names):
        super().__init__()
        self.nodes = []
        self.of = {}          # id(tensor) → node index
        self.silent = False
        self.keep = []        # so that ids stay taken
        self.kept = {}        # node index → its tensor
        self.names = names    # id(tensor) → (kind, name)
        self.storages = {}    # storage → index of the last node that wrote it in place
        self.seen_at = {}     # id(tensor) → number of nodes when its node was made

    def _storage(self, tensor):
        try:
            return tensor.untyped_storage()._cdata
        except (RuntimeError, NotImplementedError):
            return None

    def put(self, tensor, op, inputs, attrs, **more):
        if len(self.nodes) >= MAX_NODES:
            raise TooLarge(f"more than {MAX_NODES} operators")
        self.nodes.append({"op": op, "inputs": inputs, "attrs": attrs, **describe(tensor), **more})
        self.of[id(tensor)] = len(self.nodes) - 1
        self.seen_at[id(tensor)] = len(self.nodes)
        self.kept[len(self.nodes) - 1] = tensor
        return len(self.nodes) - 1

    def index(self, tensor):
        if id(tensor) not in self.of:
            kind, name = self.names.get(id(tensor), ("constant", ""))
            self.put(tensor, kind, [], {}, name=name)
        node = self.of[id(tensor)]
        written = self.storages.get(self._storage(tensor))
        if written is not None and written != node and written >= self.seen_at[id(tensor)]:
            node = self.put(tensor, "updated", [node, written], {})
        return node

    def walk(self, value, inputs):
        if isinstance(value, torch.Tensor):
            inputs.append(self.index(value))
            return {"tensor": len(inputs) - 1}
        if isinstance(value, (list, tuple)) and any(isinstance(v, torch.Tensor) for v in value):
            return [self.walk(v, inputs) for v in value]
        return plain(value)

    @contextlib.contextmanager
    def silence(self):
        self.silent = True
        try:
            yield
        finally:
            self.silent = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self.silent:
            return func(*args, **kwargs)
        inputs = []
        schema = func._schema
        attrs = {}
        for i, argument in enumerate(schema.arguments):
            value = args[i] if i < len(args) and not argument.kwarg_only else kwargs.get(argument.name, argument.default_value)
            walked = self.walk(value, inputs)
            if walked != {"tensor": len(inputs) - 1} or not inputs:
                attrs[argument.name] = walked
        out = func(*args, **kwargs)
        name = func._overloadpacket.__name__
        outs = [o for o in (out if isinstance(out, (list, tuple)) else (out,)) if isinstance(o, torch.Tensor)]
        if name in _PASS and inputs:
            for o in outs:
                self.of[id(o)], self.seen_at[id(o)] = inputs[0], len(self.nodes)
                self.keep.append(o)
            return out
        in_place = schema.is_mutable
        for which, o in enumerate(outs):
            more = {"result": which} if len(outs) > 1 else {}
            index = self.put(o, name.rstrip("_") if in_place and name.endswith("_") else name, inputs, attrs, **more)
            if in_place:
                self.storages[self._storage(o)] = index
        return out


class Help(MetaHelp):
    """Recurrent layers are one operator, not their unrolled steps."""

    def __init__(self, recorder=None):
        super().__init__(Trace())
        self.recorder = recorder

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if self.recorder is None or name not in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
            return super().__torch_function__(func, types, args, kwargs)
        with self.recorder.silence():
            out = super().__torch_function__(func, types, args, kwargs)
        inputs = []
        attrs = {f"argument_{i}": self.recorder.walk(value, inputs) for i, value in enumerate(args)}
        for which, tensor in enumerate(out):
            self.recorder.put(tensor, name, inputs, attrs, result=which)
        return out


def _named(module, inputs):
    names = {}
    for name, tensor in list(module.named_parameters(remove_duplicate=False)) + list(module.named_buffers(remove_duplicate=False)):
        names.setdefault(id(tensor), ("state", name))
    for path, tensor in leaves(inputs):
        if isinstance(tensor, torch.Tensor):
            names[id(tensor)] = ("input", str(path))
    return names


def _graph(module, inputs, meta):
    recorder = Recorder(_named(module, inputs))
    with torch.no_grad(), quiet(), Help(recorder) if meta else contextlib.nullcontext(), recorder:
        for _, tensor in leaves(inputs):
            if isinstance(tensor, torch.Tensor):
                recorder.index(tensor)
        result = module(*inputs)
        outputs = [recorder.index(t) for _, t in leaves(result) if isinstance(t, torch.Tensor)]
    if not outputs:
        raise ValueError("forward returns no tensor")
    ops = {}
    for node in recorder.nodes:
        if node["op"] not in ("input", "state", "constant", "updated") and not node.get("result"):
            key = "aten::" + node["op"]
            ops[key] = ops.get(key, 0) + 1
    parameters = [name for name, values in _signature(module)]
    return {"nodes": recorder.nodes, "outputs": outputs, "ops": ops, "parameters": parameters}


def _signature(module):
    try:
        return list(inspect.signature(module.forward).parameters.items())
    except (TypeError, ValueError):
        return []


def on_meta(source):
    """At full size, without memory."""
    with torch.no_grad(), quiet(), Help(), torch.device("meta"):
        seed_all(42)
        task = source.execute()
        args, kwargs = call_get_init_inputs(task)
        module = task.Model(*args, **kwargs)
        inputs = call_get_inputs(task)
    return _graph(module, inputs, meta=True)


def on_host(code):
    """At scaled sizes, with values."""
    from musaref.session import Task
    task = Task(code)
    return {**_graph(task.reference.module, task.input_example, meta=False), "scaled": task.scaling.changes}


def symbolic(source, like):
    """Shapes in which every size of an input is a symbol where it may be, for the nodes of `like`; None where torch refuses."""
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env, allow_non_fake_inputs=True)
    with torch.no_grad(), quiet(), Help(), torch.device("meta"):
        seed_all(42)
        task = source.execute()
        args, kwargs = call_get_init_inputs(task)
        module = task.Model(*args, **kwargs)
        inputs = call_get_inputs(task)

    def fake(tensor):
        context = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC if s > 1 else DimDynamic.STATIC for s in tensor.shape])
        return mode.from_tensor(tensor, symbolic_context=context)

    fakes = [fake(t) if isinstance(t, torch.Tensor) else t for t in inputs]
    states = {name: mode.from_tensor(t, static_shapes=True) for name, t in
              list(module.named_parameters(remove_duplicate=False)) + list(module.named_buffers(remove_duplicate=False))}
    names = {id(t): ("state", name) for name, t in states.items()}
    names.update({id(t): ("input", str(i)) for i, t in enumerate(fakes) if isinstance(t, FakeTensor)})
    recorder = Recorder(names)
    with torch.no_grad(), quiet(), mode, recorder:
        for t in fakes:
            if isinstance(t, FakeTensor):
                recorder.index(t)
        torch.func.functional_call(module, states, tuple(fakes))
    if [n["op"] for n in recorder.nodes] != [n["op"] for n in like["nodes"]][:len(recorder.nodes)]:
        return None
    # Only now: what an operator demands of a size (that it equals a weight's) holds for the tensors before it as well.
    shapes = [describe(recorder.kept[i])["shape"] for i in range(len(recorder.nodes))]
    return _rename(shapes, like, source)


def _rename(shapes, like, source):
    """Symbols by the task's own constant where just one has that value, else d0, d1, … by their first place."""
    names, taken = {}, set()
    for shape, node in zip(shapes, like["nodes"], strict=False):
        for size, number in zip(shape, node["shape"], strict=False):
            if isinstance(size, str) and _SYMBOL.fullmatch(size) and size not in names:
                constants = {s.name for s in source.sites if s.value == number and s.name.isidentifier()}
                name = constants.pop() if len(constants) == 1 else ""
                if not name or name in taken:
                    name = f"d{sum(n.startswith('d') and n[1:].isdigit() for n in taken)}"
                names[size] = name
                taken.add(name)
    return [[_SYMBOL.sub(lambda m: names.get(m.group(), m.group()), s) if isinstance(s, str) else s for s in shape] for shape in shapes]


def trace_task(code, symbols=False):
    source = TaskSource(code)
    try:
        graph = on_meta(source)
    except TooLarge:
        raise
    except Exception:  # values are needed, or an operator has no meta version
        graph = on_host(code)
    graph["symbolic"] = None
    if symbols and "scaled" not in graph:
        try:
            graph["symbolic"] = symbolic(source, graph)
        except Exception as error:  # torch's symbolic shapes refuse this module
            graph["symbolic_refused"] = f"{type(error).__name__}: {error}"[:200]
    return graph
