"""One hash for all ways to write a computation: names, sizes, order of operands and style dropped, meaning kept.

The graph is rewritten into fewer, plainer operators (addmm into a product and a sum, silu(x) into x · sigmoid(x), softmax into
exponentials and a quotient, clamp(min=0) into relu, copies and views that only rename sizes dropped), equal parts are merged,
what no output needs is left out. Then every node is labelled twice: upwards by what it is made of (operands of sums and
products as a sorted flat list, constants folded), downwards by what is made of it. The hash is that of all labels. Two different
graphs with the same labels all over are conceivable in very symmetric cases and would be taken for equal.
"""

import hashlib
import json
import math

LEAVES = ("input", "state", "constant")
_SHAPE_ONLY = {"unsqueeze", "squeeze", "expand", "clone", "contiguous", "alias", "detach", "_to_copy", "copy_", "expand_as"}
_RESHAPES = {"view", "_unsafe_view", "reshape", "_reshape_alias", "_reshape_copy", "flatten", "unflatten", "view_as"}
_PRODUCTS = {"mm", "bmm", "mv", "dot", "matmul"}
_SIZES = {"size", "sym_size", "numel", "output_size", "normalized_shape", "split_sizes", "num_classes", "end", "start", "length", "N", "C", "HxW"}
_IGNORED = {"memory_format", "layout", "device", "pin_memory", "non_blocking", "implicit", "copy", "generator", "benchmark", "deterministic",
            "cudnn_enabled", "allow_tf32", "half_to_float", "output_mask", "batch1", "stable", "sizes"}
_FLAT = {"add", "mul"}
_SORTED = {"maximum", "minimum", "eq", "ne", "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"}


def _number(value):
    return float(f"{float(value):.6g}")


class Graph:
    """Nodes that are made once: (op, attributes, inputs) → index."""

    def __init__(self):
        self.nodes, self.known = [], {}
        self.counts = {}      # sum's node → how many numbers each of its results adds up

    def make(self, op, inputs=(), rank=0, key=None, **attrs):
        attrs = {k: v for k, v in sorted(attrs.items()) if v is not None}
        place = (op, tuple(inputs), json.dumps(attrs, sort_keys=True), key)
        if place not in self.known:
            self.nodes.append((op, tuple(inputs), attrs, rank))
            self.known[place] = len(self.nodes) - 1
        return self.known[place]

    def number(self, value):
        return self.make("number", value=_number(value))

    def is_number(self, i, value=None):
        op, _, attrs, _ = self.nodes[i]
        return op == "number" and (value is None or attrs["value"] == _number(value))


def _dims(attrs, rank, name="dim"):
    """Axes as sorted non-negative numbers beside the rank they count in; "all" where every axis is meant."""
    dim = attrs.get(name)
    if dim is None or dim == []:
        return "all"
    dims = sorted({d % max(rank, 1) for d in (dim if isinstance(dim, list) else [dim])})
    return "all" if len(dims) == rank else [d - rank for d in dims]


def _operand(g, made, node, name):
    """A tensor argument's node, or a number's."""
    value = node["attrs"].get(name)
    if isinstance(value, dict):
        return made[node["inputs"][value["tensor"]]]
    return g.number(value) if isinstance(value, (bool, int, float)) else None


def _scaled(g, index, factor, rank):
    return index if factor in (None, 1) else g.make("mul", (index, g.number(factor)), rank)


def _negated(g, index, rank):
    """−(a + b) is −a − b."""
    op, inputs, attrs, _ = g.nodes[index]
    if op == "number":
        return g.number(-attrs["value"])
    if op == "add":
        return g.make("add", tuple(_negated(g, i, rank) for i in inputs), rank)
    if op == "mul" and g.is_number(inputs[1]):
        value = -g.nodes[inputs[1]][2]["value"]
        return inputs[0] if value == 1 else g.make("mul", (inputs[0], g.number(value)), rank)
    return g.make("mul", (index, g.number(-1)), rank)


def _softmax(g, x, dims, rank, log):
    """Into exponentials, so that one written by hand is the same."""
    shifted = g.make("add", (x, _negated(g, g.make("amax", (x,), rank, dim=dims), rank)), rank)
    exps = g.make("exp", (shifted,), rank)
    total = g.make("sum", (exps,), rank, dim=dims)
    if log:
        return g.make("add", (shifted, _negated(g, g.make("log", (total,), rank), rank)), rank)
    return _quotient(g, exps, total, rank)


def _quotient(g, left, right, rank):
    inverse = g.make("reciprocal", (right,), rank)
    return inverse if g.is_number(left, 1) else g.make("mul", (left, inverse), rank)


def _sigmoid(g, x, rank):
    return _quotient(g, g.number(1), g.make("add", (g.number(1), g.make("exp", (_negated(g, x, rank),), rank)), rank), rank)


def _clamp(g, x, low, high, rank):
    if low is not None and high is None and low == 0:
        return g.make("relu", (x,), rank)
    return g.make("clamp", (x,), rank, low=None if low is None else _number(low), high=None if high is None else _number(high))


def _arithmetic(g, op, node, made, inputs, rank):
    a = node["attrs"]
    x = inputs[0] if inputs else None
    if op in ("add", "sub", "rsub"):
        left = x
        right = inputs[1] if len(inputs) > 1 else _operand(g, made, node, "other")
        if right is None:
            return None
        if op == "rsub":
            left, right = right, left
        alpha = a.get("alpha", 1)
        alpha = alpha if isinstance(alpha, (int, float)) else 1
        right = _scaled(g, right, -alpha if op in ("sub", "rsub") else alpha, rank)
        return g.make("add", (left, right), rank)
    if op in ("mul", "div"):
        right = inputs[1] if len(inputs) > 1 else _operand(g, made, node, "other")
        if right is None:
            return None
        if op == "mul":
            return g.make("mul", (x, right), rank)
        if a.get("rounding_mode"):
            return g.make("div", (x, right), rank, rounding=a["rounding_mode"])
        if g.is_number(right):
            value = g.nodes[right][2]["value"]
            if g.nodes[x][0] == "sum" and g.counts.get(x) == value:
                return g.make("mean", g.nodes[x][1], rank, **g.nodes[x][2])
            return g.make("mul", (x, g.number(1 / value)), rank) if value else None
        return _quotient(g, x, right, rank)
    if op == "neg":
        return _negated(g, x, rank)
    if op == "reciprocal":
        return g.make("reciprocal", (x,), rank)
    if op == "rsqrt":
        return g.make("reciprocal", (g.make("sqrt", (x,), rank),), rank)
    if op == "square" or op == "pow" and a.get("exponent") == 2:
        return g.make("mul", (x, x), rank)
    if op == "pow" and a.get("exponent") == 0.5:
        return g.make("sqrt", (x,), rank)
    return None


def _activation(g, op, node, made, inputs, rank):
    a = node["attrs"]
    x = inputs[0] if inputs else None
    if op == "sigmoid":
        return _sigmoid(g, x, rank)
    if op == "silu":
        return g.make("mul", (x, _sigmoid(g, x, rank)), rank)
    if op == "mish":
        return g.make("mul", (x, g.make("tanh", (g.make("softplus", (x,), rank, beta=1.0, threshold=20.0),), rank)), rank)
    if op == "softplus":
        return g.make("softplus", (x,), rank, beta=_number(a.get("beta", 1)), threshold=_number(a.get("threshold", 20)))
    if op in ("clamp", "hardtanh") and len(inputs) == 1:
        return _clamp(g, x, a.get("min", a.get("min_val")), a.get("max", a.get("max_val")), rank)
    if op in ("clamp_min", "clamp_max") and len(inputs) == 1:
        return _clamp(g, x, a.get("min"), a.get("max"), rank)
    if op == "relu6":
        return _clamp(g, x, 0, 6, rank)
    if op == "threshold" and a.get("threshold") == 0 and a.get("value") == 0:
        return g.make("relu", (x,), rank)
    if op == "maximum" and any(g.is_number(i, 0) for i in inputs):
        return g.make("relu", tuple(i for i in inputs if not g.is_number(i, 0)), rank)
    return None


def _reduction(g, op, node, made, inputs, rank):
    a = node["attrs"]
    x = inputs[0] if inputs else None
    of = g.nodes[x][3] if inputs else 0
    if op in ("_softmax", "_log_softmax"):
        return _softmax(g, x, _dims(a, of), rank, op == "_log_softmax")
    if op in ("sum", "mean", "amax", "amin", "prod", "logsumexp", "any", "all"):
        index = g.make(op, (x,), rank, dim=_dims(a, of))
        if op == "sum":
            sizes = made["shape"][node["inputs"][0]]
            g.counts[index] = math.prod(sizes) // max(1, math.prod(node["shape"]))
        return index
    if op in ("max", "min") and len(inputs) == 1:
        if a.get("dim") is None:
            return g.make("a" + op, (x,), rank, dim="all")
        return g.make("a" + op if not node.get("result") else "arg" + op, (x,), rank, dim=_dims(a, of))
    if op in ("argmax", "argmin", "cumsum", "cumprod", "cummax", "cummin"):
        return g.make(op, (x,), rank, dim=_dims(a, of), result=node.get("result") or None)
    if op == "native_layer_norm":
        sizes = a.get("normalized_shape")
        return g.make("layer_norm", inputs, rank, axes=len(sizes) if isinstance(sizes, list) else 1, eps=_number(a.get("eps", 1e-5)), result=node.get("result") or None)
    return None


def _product(g, op, node, made, inputs, rank):
    a = node["attrs"]
    if op in ("addmm", "baddbmm", "addmv", "addbmm"):
        product = g.make({"addmm": "mm", "baddbmm": "bmm", "addmv": "mv", "addbmm": "bmm"}[op], inputs[1:], rank)
        alpha, beta = a.get("alpha", 1), a.get("beta", 1)
        return g.make("add", (_scaled(g, inputs[0], beta, rank), _scaled(g, product, alpha, rank)), rank)
    if op in _PRODUCTS:
        return g.make(op, inputs, rank)
    if "convolution" in op:
        groups = a.get("groups", 1)
        bias = inputs[2:] if len(inputs) > 2 else ()
        out = g.make("convolution", inputs[:2], rank, stride=a.get("stride"), padding=a.get("padding"), dilation=a.get("dilation"),
                     transposed=bool(a.get("transposed")), output_padding=a.get("output_padding") if a.get("transposed") else None,
                     groups="one" if groups == 1 else "many")
        return g.make("add", (out, *bias), rank) if bias else out
    return None


def _layout(g, op, node, made, inputs, rank):
    a = node["attrs"]
    x = inputs[0] if inputs else None
    of = g.nodes[x][3] if inputs else 0
    if op in ("t", "transpose", "permute", "numpy_T", "swapaxes"):
        dims = list(range(rank))
        if op == "permute":
            dims = [d % max(rank, 1) for d in a["dims"]]
        elif rank > 1:
            p, q = (0, 1) if op == "t" else (a["dim0"] % rank, a["dim1"] % rank)
            dims[p], dims[q] = dims[q], dims[p]
        inner = g.nodes[x]
        if inner[0] == "permute":
            dims, x = [inner[2]["dims"][d] for d in dims], inner[1][0]
        return x if dims == sorted(dims) else g.make("permute", (x,), rank, dims=dims)
    if op in _SHAPE_ONLY and len(inputs) == 1:
        dtype = a.get("dtype")
        before = made["dtype"][node["inputs"][0]]
        if op == "_to_copy" and dtype and node["dtype"] != before:
            return g.make("cast", (x,), rank, dtype=node["dtype"])
        return x
    if op in _RESHAPES and len(inputs) == 1:
        real = [s for s in node["shape"] if s != 1] != [s for s in made["shape"][node["inputs"][0]] if s != 1]
        if not real or g.nodes[x][0] == "reshape":
            return x
        product = g.nodes[x][0] in _PRODUCTS or g.nodes[x][0] == "add" and any(g.nodes[i][0] in _PRODUCTS for i in g.nodes[x][1])
        return x if product or of == rank and not real else g.make("reshape", (x,), rank)
    return None


def simplify(graph):
    """(Graph of plain operators, indices of the outputs)."""
    g, made = Graph(), {"shape": {}, "dtype": {}}
    for i, node in enumerate(graph["nodes"]):
        rank = len(node["shape"])
        made["shape"][i], made["dtype"][i] = node["shape"], node["dtype"]
        op = node["op"]
        if op in LEAVES:
            made[i] = g.make(op, (), rank, key=i, dtype=node["dtype"])
            continue
        inputs = tuple(made[j] for j in node["inputs"])
        if op in _PRODUCTS or op in ("addmm", "baddbmm", "addmv"):
            # Products flatten leading axes in some styles and not in others.
            inputs = tuple(g.nodes[j][1][0] if g.nodes[j][0] == "reshape" else j for j in inputs)
        index = None
        for rule in (_arithmetic, _activation, _reduction, _product, _layout):
            index = rule(g, op, node, made, inputs, rank)
            if index is not None:
                break
        if index is None:
            attrs = {}
            for name, value in node["attrs"].items():
                if name in _IGNORED or name in _SIZES or isinstance(value, dict):
                    continue
                if name in ("dim", "dims") and inputs and value is not None and not (isinstance(value, list) and any(isinstance(v, str) for v in value)):
                    value = _dims(node["attrs"], g.nodes[inputs[0]][3], name)
                attrs["a_" + name] = _number(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value
            if not inputs:
                attrs["dtype"] = node["dtype"]
            index = g.make(op, inputs, rank, result=node.get("result") or None, **attrs)
        made[i] = index
    return g, [made[o] for o in graph["outputs"]]


def _digest(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]


def canonical_hash(graph):
    g, outputs = simplify(graph)
    reached, stack = set(), list(outputs)
    while stack:
        i = stack.pop()
        if i not in reached:
            reached.add(i)
            stack.extend(g.nodes[i][1])
    order = sorted(reached)   # inputs come before what is made of them

    flat = {}

    def operands(i):
        """Of a sum or product, those of the sums or products it is made of, too."""
        if i not in flat:
            op, inputs = g.nodes[i][:2]
            out = []
            for j in inputs:
                out.extend(operands(j) if g.nodes[j][0] == op else [j])
            flat[i] = out
        return flat[i]

    up = {}
    for i in order:
        op, inputs, attrs, _ = g.nodes[i]
        if op in _FLAT:
            constant = 0.0 if op == "add" else 1.0
            rest = []
            for j in operands(i):
                if g.nodes[j][0] == "number":
                    value = g.nodes[j][2]["value"]
                    constant = constant + value if op == "add" else constant * value
                else:
                    rest.append(up[j])
            up[i] = _digest([op, sorted(rest), f"{constant:.4g}"])
        else:
            children = [up[j] for j in inputs]
            up[i] = _digest([op, attrs, sorted(children) if op in _SORTED else children])
    consumers = {i: set() for i in order}
    for i in order:
        for j in g.nodes[i][1]:
            consumers[j].add(g.nodes[i][0])
    # Parts of a longer sum or product alone have no label of their own.
    labelled = [i for i in order if g.nodes[i][0] != "number" and
                (i in outputs or g.nodes[i][0] not in _FLAT or consumers[i] != {g.nodes[i][0]})]
    users = {i: [] for i in order}
    for i in labelled:
        op = g.nodes[i][0]
        for place, j in enumerate(operands(i) if op in _FLAT else g.nodes[i][1]):
            users[j].append((i, "" if op in _FLAT or op in _SORTED else str(place)))
    places = {}
    for place, o in enumerate(outputs):
        places.setdefault(o, []).append(place)
    down = {}
    for i in reversed(labelled):
        down[i] = _digest([up[i], sorted([down[u], p] for u, p in users[i]), places.get(i, [])])
    return _digest(["graph", sorted(down.values())])
