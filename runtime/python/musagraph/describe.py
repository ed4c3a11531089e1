"""What is told of a graph: its shapes, what a kernel writer may make of them, and the family it belongs to."""

import math

from .canonical import LEAVES

MAX_LINES = 48
BYTES = {"float64": 8, "int64": 8, "complex64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int16": 2}

ELEMENTWISE = {"add", "sub", "rsub", "mul", "div", "neg", "abs", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal", "square", "pow",
               "sin", "cos", "tan", "tanh", "sinh", "cosh", "asin", "acos", "atan", "atan2", "erf", "erfc", "sigmoid", "relu", "relu6", "gelu", "silu", "mish", "elu", "celu",
               "selu", "leaky_relu", "hardtanh", "hardsigmoid", "hardswish", "softplus", "softsign", "threshold", "clamp", "clamp_min", "clamp_max", "where", "maximum",
               "minimum", "fmax", "fmin", "lerp", "addcmul", "addcdiv", "floor", "ceil", "round", "trunc", "frac", "sign", "fmod", "remainder", "eq", "ne", "lt", "le",
               "gt", "ge", "logical_and", "logical_or", "logical_xor", "logical_not", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "masked_fill",
               "isnan", "isinf", "isfinite", "_to_copy", "log_sigmoid_forward", "_prelu_kernel", "prelu", "hypot", "special_log1p", "nan_to_num", "xlogy"}
REDUCTIONS = {"sum", "mean", "amax", "amin", "max", "min", "prod", "argmax", "argmin", "any", "all", "var", "std", "var_mean", "logsumexp", "norm",
              "linalg_vector_norm", "count_nonzero", "median", "nansum"}
SCANS = {"cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"}
PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot", "matmul", "einsum"}
NORMS = {"native_layer_norm", "native_group_norm", "native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training", "cudnn_batch_norm",
         "_batch_norm_impl_index", "batch_norm", "_fused_rms_norm", "_batch_norm_with_update"}
SOFTMAX = {"_softmax", "_log_softmax"}
LOSSES = {"mse_loss", "smooth_l1_loss", "huber_loss", "nll_loss_forward", "nll_loss2d_forward", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div"}
INDEXING = {"gather", "scatter", "scatter_add", "scatter_reduce", "index", "index_select", "index_put", "index_add", "embedding", "take", "roll", "flip", "tril", "triu",
            "cat", "stack", "constant_pad_nd", "reflection_pad1d", "reflection_pad2d", "replication_pad2d", "pixel_shuffle", "unfold", "repeat", "sort", "topk",
            "one_hot", "masked_select", "diagonal", "im2col", "col2im", "repeat_interleave", "scatter_value", "slice_scatter", "select_scatter"}
RECURRENT = {"lstm", "gru", "rnn_tanh", "rnn_relu"}


def family_of(graph):
    """One word: the heaviest operator's family, with `_chain` where there is more computing than that."""
    ops = {op.removeprefix("aten::").removesuffix("_") if not op.startswith("aten::_") else op.removeprefix("aten::") for op in graph["ops"]}
    nodes = graph["nodes"]
    products = sum(n["op"] in PRODUCTS for n in nodes)
    if any("attention" in op for op in ops) or (ops & SOFTMAX and products >= 2 and any(n["op"] in ("bmm", "baddbmm") for n in nodes)):
        return "attention"
    if ops & RECURRENT:
        return "recurrent"
    convolutions = [n for n in nodes if "convolution" in n["op"]]
    computing = ELEMENTWISE | REDUCTIONS | SCANS | NORMS | SOFTMAX | LOSSES | INDEXING
    steps = sum(n["op"] in computing and not n.get("result") for n in nodes)
    if len(convolutions) + products > 3:
        return "network"
    if convolutions:
        rank = len(convolutions[0]["shape"]) - 2
        name = f"conv{'_transposed' if any(c['attrs'].get('transposed') for c in convolutions) else ''}{rank}d"
        return name + ("_chain" if steps or products else "")
    if products:
        return "matmul" + ("_chain" if steps else "")
    pools = any("pool" in op for op in ops)
    for found, name in ((ops & NORMS, "norm"), (ops & SOFTMAX, "softmax"), (pools, "pooling"), (ops & LOSSES, "loss"), (ops & SCANS, "scan"),
                        (any("upsample" in op or "interpolate" in op or "grid_sampl" in op for op in ops), "interpolation")):
        if found:
            return name
    if ops & REDUCTIONS:
        return "reduction" + ("_chain" if steps > 2 else "")
    if ops & INDEXING:
        return "indexing"
    if ops & ELEMENTWISE:
        return "elementwise" + ("_chain" if steps > 2 else "")
    return "layout"


def _tuple(sizes):
    return "(" + ", ".join(map(str, sizes)) + ("," if len(sizes) == 1 else "") + ")"


def _name(graph, i):
    node = graph["nodes"][i]
    if node["op"] == "input":
        place = node["name"].strip("[]'")
        parameters = graph["parameters"]
        return parameters[int(place)] if place.isdigit() and int(place) < len(parameters) else f"input {place}"
    if node["op"] == "state":
        return node["name"]
    return f"v{i}"


def _attributes(node):
    shown = []
    for name, value in node["attrs"].items():
        if value in (None, [], False) or isinstance(value, dict) or name in ("alpha", "beta") and value == 1 or name.startswith("argument_"):
            continue
        if name in ("memory_format", "layout", "device", "pin_memory", "half_to_float", "implicit"):
            continue
        shown.append(f"{name}={_tuple(value) if isinstance(value, list) and not any(isinstance(v, (list, dict)) for v in value) else value}")
    return shown


def shape_information(graph):
    """A line a node: name, what it is, shape (sizes of inputs as symbols where they may vary), strides, dtype, contiguity."""
    symbolic, values = graph.get("symbolic"), {}
    lines = []
    for i, node in enumerate(graph["nodes"]):
        shape = symbolic[i] if symbolic and i < len(symbolic) else node["shape"]
        for symbol, number in zip(shape, node["shape"], strict=False):
            if isinstance(symbol, str) and symbol.isidentifier():
                values.setdefault(symbol, number)
        if node["op"] in LEAVES:
            what = {"input": "input", "state": "parameter or buffer", "constant": "constant"}[node["op"]]
        else:
            result = f", result {node['result']}" if node.get("result") else ""
            what = f"{node['op']}({', '.join([_name(graph, j) for j in node['inputs']] + _attributes(node))}){result}"
        place = "contiguous" if node["contiguous"] else "not contiguous"
        lines.append(f"{_name(graph, i)} = {what}: shape {_tuple(shape)}, strides {_tuple(node['stride'])}, {node['dtype']}, {place}")
    if len(lines) > MAX_LINES:
        lines[MAX_LINES // 2:len(lines) - MAX_LINES // 2] = [f"… {len(lines) - MAX_LINES} more"]
    if values:
        lines.insert(0, "sizes that may vary: " + ", ".join(f"{k} = {v}" for k, v in values.items()))
    if graph.get("scaled"):
        lines.insert(0, "(traced at reduced sizes: " + ", ".join(f"{c['name']} {c['from']} → {c['to']}" for c in graph["scaled"]) + ")")
    return "\n".join([*lines, "returns " + ", ".join(_name(graph, o) for o in graph["outputs"])])


def _reduced(node, source):
    """How many numbers go into one result of a reduction."""
    return math.prod(source["shape"]) // max(1, math.prod(node["shape"]))


def hint(graph):
    """What the graph alone says about kernels for it: what to fuse, what is summed, what is read how often, the least traffic."""
    nodes, lines = graph["nodes"], []
    users = {}
    for i, node in enumerate(nodes):
        for j in set(node["inputs"]):
            users.setdefault(j, []).append(i)
    fused = [i for i, n in enumerate(nodes) if n["op"] in ELEMENTWISE and n["inputs"]]
    if fused:
        after = [i for i in fused if any(nodes[j]["op"] not in LEAVES for j in nodes[i]["inputs"])]
        names = ", ".join(dict.fromkeys(nodes[i]["op"] for i in fused))
        lines.append(f"Element-wise: {names}. " + (f"{len(after)} of {len(fused)} of these steps take what another step made: compute them where that value is still in a register, "
                                                   "instead of a kernel and a round trip through memory each." if after else "One pass: every element is read once and written once."))
    for node in nodes:
        if node["op"] in REDUCTIONS | SOFTMAX | NORMS and node["inputs"] and not node.get("result"):
            source = nodes[node["inputs"][0]]
            if node["op"] in REDUCTIONS:
                lines.append(f"{node['op']} brings {_tuple(source['shape'])} to {_tuple(node['shape'])}: {_reduced(node, source)} numbers a result, {max(1, math.prod(node['shape']))} results. "
                             "Give each result to a thread, a warp or a block as that number asks, and accumulate in float32.")
            elif node["op"] in SOFTMAX:
                axis = node["attrs"].get("dim", -1)
                lines.append(f"{node['op'].strip('_')} over axis {axis} of {_tuple(source['shape'])}: the row's maximum and its sum of exponentials are needed before the first result; "
                             "subtract the maximum, or keep both in one pass.")
            else:
                lines.append(f"{node['op'].strip('_')} of {_tuple(source['shape'])}: mean and variance come before the first result; sum in float32.")
        elif node["op"] in PRODUCTS and len(node["inputs"]) > 1:
            a, b = node["inputs"][-2:]
            inner = nodes[a]["shape"][-1] if nodes[a]["shape"] else 1
            turned = " The second operand is a transposed view: index it through its strides instead of copying it." if not nodes[b]["contiguous"] else ""
            lines.append(f"{node['op']}: {_tuple(nodes[a]['shape'])} × {_tuple(nodes[b]['shape'])}, an inner product of {inner} terms for each of {math.prod(node['shape'])} results. "
                         f"Each operand's element is needed again and again: stage tiles in shared memory.{turned}")
        elif "convolution" in node["op"] and len(node["inputs"]) > 1:
            weight = nodes[node["inputs"][1]]["shape"]
            lines.append(f"{'Transposed convolution' if node['attrs'].get('transposed') else 'Convolution'} with weights {_tuple(weight)}: {math.prod(weight[1:])} products a result at most; "
                         "padding is a bound on the index, not memory.")
        elif node["op"] in SCANS:
            lines.append(f"{node['op']} along axis {node['attrs'].get('dim')}: each result needs all before it; scan within a block, then carry the block's total on.")
    for i, node in enumerate(nodes):
        if node["op"] == "input" and len(users.get(i, [])) > 1:
            lines.append(f"{_name(graph, i)} is read by {len(users[i])} steps: load it once where they are fused.")
        if node["op"] == "input" and not node["contiguous"]:
            lines.append(f"{_name(graph, i)} is not contiguous: use its strides {_tuple(node['stride'])}.")
    ends = [i for i, n in enumerate(nodes) if n["op"] in ("input", "state")] + list(dict.fromkeys(graph["outputs"]))
    traffic = sum(math.prod(nodes[i]["shape"]) * BYTES.get(nodes[i]["dtype"], 1) for i in ends)
    lines.append(f"Inputs, weights and outputs are {traffic} bytes together: no version can move less.")
    return "\n".join("- " + line for line in list(dict.fromkeys(lines))[:16])
