// Graphs: shapes and their refusal, canonical hashes, printed tasks, and every operator's row against PyTorch.
#include "synth/graph/graph.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/subprocess.h"
#include "synth/graph/ops.h"
#include "synth/graph/print.h"
#include "synth/graph/python_text.h"
#include "synth/tasks/tasks.h"
#include "synth/tasks/variants.h"
#include "synth/teacher/lower.h"

namespace musacoder::synth {
namespace {

Graph linear_relu() {
  GraphBuilder b;
  const Dim batch = b.dim("batch_size", 12), in = b.dim("in_features", 8), out = b.dim("out_features", 5);
  const int x = b.input("x", DType::kF32, {batch, in});
  const int h = b.module("linear", "Linear", "linear", {x}, {{"in_features", Attr::of(in)}, {"out_features", Attr::of(out)}});
  b.output(b.op("relu", {h}));
  return *b.build();
}

TEST(GraphBuilder, InfersShapesAndMakesParameters) {
  const Graph g = linear_relu();
  EXPECT_EQ(shape_text(g.type(g.outputs[0])), "float32 (12, 5)");
  ASSERT_EQ(g.values.size(), 5u);  // x, weight, bias, linear's result, relu's
  EXPECT_EQ(g.values[1].name, "linear.weight");
  EXPECT_EQ(g.values[1].type.sizes(), (std::vector<std::int64_t>{5, 8}));
  EXPECT_EQ(aten_operators(g), (std::set<std::string>{"aten::linear", "aten::relu"}));
}

struct Refused {
  const char* why;
  void (*make)(GraphBuilder&);
};

TEST(GraphBuilder, RefusesWhatDoesNotFit) {
  const Refused cases[] = {
      {"do not broadcast", [](GraphBuilder& b) { b.output(b.op("add", {b.input("x", DType::kF32, {literal(3)}), b.input("y", DType::kF32, {literal(4)})})); }},
      {"axis 2", [](GraphBuilder& b) { b.output(b.op("sum", {b.input("x", DType::kF32, {literal(3), literal(4)})}, {{"dim", 2}})); }},
      {"no operator frobnicate", [](GraphBuilder& b) { b.output(b.op("frobnicate", {b.input("x", DType::kF32, {literal(3)})})); }},
      {"needs a floating tensor", [](GraphBuilder& b) { b.output(b.op("exp", {b.input("x", DType::kI32, {literal(3)}, Fill::kInteger, Layout::kContiguous, literal(9))})); }},
      {"in 5 groups", [](GraphBuilder& b) { b.output(b.module("n", "GroupNorm", "group_norm", {b.input("x", DType::kF32, {literal(2), literal(12)})}, {{"num_groups", 5}, {"num_channels", 12}})); }},
      {"constant n is", [](GraphBuilder& b) { b.output(b.input("x", DType::kF32, {b.dim("n", 3), b.dim("n", 4)})); }},
      {"takes 2", [](GraphBuilder& b) { b.output(b.op("maximum", {b.input("x", DType::kF32, {literal(3)})})); }},
      {"no output", [](GraphBuilder& b) { b.input("x", DType::kF32, {literal(3)}); }},
      {"by more than the axis", [](GraphBuilder& b) { b.output(b.op("pad", {b.input("x", DType::kF32, {literal(3), literal(3)})}, {{"pad", std::vector<std::int64_t>{3, 0}}, {"mode", "reflect"}})); }},
  };
  for (const Refused& c : cases) {
    GraphBuilder b;
    c.make(b);
    const Result<Graph> g = b.build();
    ASSERT_FALSE(g.has_value()) << c.why;
    EXPECT_NE(g.error().message.find(c.why), std::string::npos) << g.error().message;
  }
}

Graph two_inputs(const char* op, bool exchanged, bool same, std::int64_t size, double scalar) {
  GraphBuilder b;
  const int x = b.input("x", DType::kF32, {literal(size)}), y = b.input("y", DType::kF32, {literal(size)});
  const int z = b.op("tanh", {x});
  const int other = same ? z : y;
  b.output(b.op("mul", {exchanged ? b.op(op, {other, z}) : b.op(op, {z, other})}, {{"scalar", scalar}}));
  return *b.build();
}

TEST(CanonicalHash, KnowsWhatIsTheSame) {
  const std::string base = canonical_hash(two_inputs("add", false, false, 8, 2.0));
  EXPECT_EQ(base, canonical_hash(two_inputs("add", true, false, 8, 2.0)));    // a commutative operator
  EXPECT_EQ(base, canonical_hash(two_inputs("add", false, false, 9, 2.0)));   // another size
  EXPECT_NE(base, canonical_hash(two_inputs("add", false, true, 8, 2.0)));    // z + z is not z + y
  EXPECT_NE(base, canonical_hash(two_inputs("add", false, false, 8, 3.0)));   // another attribute
  EXPECT_NE(canonical_hash(two_inputs("sub", false, false, 8, 2.0)), canonical_hash(two_inputs("sub", true, false, 8, 2.0)));
  EXPECT_NE(canonical_hash(two_inputs("add", false, false, 8, 2.0), true), canonical_hash(two_inputs("add", false, false, 9, 2.0), true));
}

TEST(PythonText, FillsTemplates) {
  const Attrs attrs{{"dim", 1}, {"dims", std::vector<std::int64_t>{0, 2}}, {"mode", "reflect"}};
  const std::map<std::string, std::string> texts{{"dim", "1"}, {"dims", "(0, 2)"}, {"mode", "\"reflect\""}};
  EXPECT_EQ(fill_template("torch.sum({0}[[, dim={dim}]][[, keepdim={keepdim}]])", {"x"}, attrs, texts), "torch.sum(x, dim=1)");
  EXPECT_EQ(fill_template("{0}.sum([[p={p}]][[, dim={dim}]])", {"a + b"}, attrs, texts), "(a + b).sum(dim=1)");
  EXPECT_EQ(fill_template("{0}.permute({dims:items})", {"x"}, attrs, texts), "x.permute(0, 2)");
  EXPECT_EQ(fill_template("torch.cat([{*}], dim={dim})", {"x", "y"}, attrs, texts), "torch.cat([x, y], dim=1)");
  EXPECT_EQ(fill_template("{0} * {1}", {"a + b", "-c"}, attrs, texts), "(a + b) * (-c)");
  EXPECT_EQ(python_value(2.0), "2.0");
  EXPECT_EQ(python_value(std::vector<std::int64_t>{3}), "(3,)");
}

TEST(PrintTask, IsTheSameForTheSameSeed) {
  const Graph g = linear_relu();
  EXPECT_EQ(print_task(g, style_of(3), "A layer."), print_task(g, style_of(3), "A layer."));
  std::set<std::string> different;
  for (std::uint64_t seed = 0; seed < 20; ++seed) different.insert(print_task(g, style_of(seed), "A layer."));
  EXPECT_GT(different.size(), 5u);
}

// nn.Conv2d(in_channels, out_channels, kernel_size) with all of it, and a parameter, as arguments.
TEST(PrintTask, WritesTheConstructorThatTheGraphAsksFor) {
  GraphBuilder b;
  const Dim in = b.dim("in_channels", 3), out = b.dim("out_channels", 8), n = b.dim("batch_size", 2), side = b.dim("height", 16);
  Attrs args{{"in_channels", Attr::of(in)}, {"out_channels", Attr::of(out)}, {"kernel_size", Attr::named("kernel_size", std::int64_t{3})}};
  args["stride"] = Attr::named("stride", std::int64_t{2});
  args["bias"] = Attr::named("bias", false);
  const int x = b.module("conv", "Conv2d", "conv2d", {b.input("x", DType::kF32, {n, in, side, side})}, args);
  const int scale = b.parameter("scale", DType::kF32, {out, literal(1), literal(1)});
  b.output(b.op("sum", {b.op("mul", {x, scale})}, {{"dim", Attr::named("dim", std::int64_t{1})}}));
  Graph graph = *b.build();
  graph.constructor = {.annotated = true, .defaults = 0, .keywords_from = 3, .spread_kernel = true, .shape_arguments = true};
  PrintStyle style;
  style.init_literals = true;
  const std::string file = print_task(graph, style, "A test.");
  for (const char* line : {"    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int, bias: bool, scale_shape: tuple, dim: int):\n",
                           "        self.conv = nn.Conv2d(in_channels, out_channels, (kernel_size, kernel_size), stride=stride, bias=bias)\n",
                           "        self.scale = nn.Parameter(0.1 * torch.randn(scale_shape))\n", "        self.dim = dim\n", "\nscale_shape = (out_channels, 1, 1)\n",
                           "    return [in_channels, out_channels, 3, 2, False, scale_shape, 1]\n"})
    EXPECT_NE(file.find(line), std::string::npos) << line << file;
  EXPECT_EQ(init_text(graph).arguments, ", in_channels: int, out_channels: int, kernel_size: int, stride: int, bias: bool, scale_shape: tuple, dim: int");
  // Only what ends the list and is no size can have a default.
  graph.constructor = {.annotated = false, .defaults = 9, .keywords_from = 99, .spread_kernel = false, .shape_arguments = false};
  EXPECT_EQ(init_text(graph).arguments, ", in_channels, out_channels, kernel_size=3, stride=2, bias=False, dim=1");
  EXPECT_NE(print_task(graph, {}, "").find("    return [in_channels, out_channels]\n"), std::string::npos);
  graph.constructor.defaults = 1;
  EXPECT_EQ(init_text(graph).arguments, ", in_channels, out_channels, kernel_size, stride, bias, dim=1");
}

// A pool's arguments go to the member; whether the model keeps them as well is a matter of style.
TEST(PrintTask, KeepsWhatForwardReads) {
  GraphBuilder b;
  const int x = b.input("x", DType::kF32, {b.dim("batch_size", 2), b.dim("channels", 3), b.dim("height", 16), b.dim("width", 16)});
  b.output(b.op("max_pool2d", {x}, {{"kernel_size", Attr::named("kernel_size", std::int64_t{3})}}));
  const Graph graph = *b.build();
  const std::string keeps = "        self.kernel_size = kernel_size\n";
  for (const auto& [calls, seed, kept] : {std::tuple{PrintStyle::Calls::kMembers, 1, false}, {PrintStyle::Calls::kMembers, 4, true}, {PrintStyle::Calls::kFunctional, 1, true}}) {
    PrintStyle style;
    style.calls = calls;
    style.seed = static_cast<std::uint64_t>(seed);
    const std::string file = print_task(graph, style, "A test.");
    EXPECT_EQ(file.find(keeps) != std::string::npos, kept) << file;
  }
  EXPECT_NE(init_text(graph).body.find("self.kernel_size = kernel_size"), std::string::npos);
}

TEST(Variants, SurroundKeepsWhatStoodThere) {
  int changed = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    GraphBuilder b;
    b.output(b.op("softmax", {b.input("x", DType::kF32, {b.dim("rows", 8), b.dim("cols", 32)})}, {{"dim", -1}}));
    Graph graph = *b.build();
    const std::string before = canonical_hash(graph);
    std::string summary = "Softmax.";
    Seeded draw(seed);
    surround(graph, draw, summary);
    EXPECT_EQ(std::count_if(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) { return node.op == "softmax"; }), 1);
    EXPECT_LE(graph.nodes.size(), 3u);
    EXPECT_EQ(graph.outputs.size(), 1u);
    EXPECT_EQ(canonical_hash(graph) == before, summary == "Softmax.");
    changed += summary != "Softmax.";
  }
  EXPECT_EQ(changed, 40);
}

TEST(DrawTasks, OtherStylesAreOtherFiles) {
  const auto tasks = draw_tasks({.count = 30, .seed = 4});
  ASSERT_TRUE(tasks);
  int others = 0;
  for (const DrawnTask& task : *tasks) {
    EXPECT_EQ(in_style(task, 0), task.file);
    others += in_style(task, 1) != task.file;
  }
  EXPECT_GT(others, 20);
}

TEST(DrawTasks, IsDistinctBalancedAndTheSameForTheSameSeed) {
  const auto tasks = draw_tasks({.count = 150, .seed = 9});
  ASSERT_TRUE(tasks.has_value());
  ASSERT_EQ(tasks->size(), 150u);
  std::set<std::string> files, families;
  for (const DrawnTask& task : *tasks) {
    files.insert(task.file);
    families.insert(task.family);
  }
  EXPECT_EQ(files.size(), 150u);
  EXPECT_GT(families.size(), 10u);
  const auto again = draw_tasks({.count = 150, .seed = 9});
  EXPECT_EQ((*tasks)[149].file, (*again)[149].file);
  EXPECT_NE((*tasks)[0].file, (*draw_tasks({.count = 1, .seed = 10}))[0].file);
  const auto norms = draw_tasks({.count = 20, .seed = 1, .families = {"norm"}});
  for (const DrawnTask& task : *norms) EXPECT_EQ(task.family, "norm");
  EXPECT_NE(draw_tasks({.families = {"nonsense"}}).error().message.find("softmax"), std::string::npos);
}

// Every archetype and random graphs in many styles, executed by PyTorch on small sizes: shapes and types of the results are those of the graph.
// Sizes are divided by what the constants allow, so only rank and type are compared where a constant was changed; here none is: tasks with
// more than two million elements are skipped.
TEST(PrintTask, AgreesWithPyTorch) {
  const char* python = std::getenv("MUSACODER_PYTHON");
  if (python == nullptr) GTEST_SKIP() << "MUSACODER_PYTHON is not set";
  nlohmann::json tasks = nlohmann::json::array();
  std::map<std::string, int> seen;
  const auto add = [&](const DrawnTask& task) {
    std::int64_t elements = 0;
    for (const Value& v : task.graph.values) elements += v.type.numel();
    if (elements > 2000000) return;
    nlohmann::json shapes = nlohmann::json::array();
    for (int v : task.graph.outputs) shapes.push_back({task.graph.type(v).sizes(), std::string("torch.") + dtype_name(task.graph.type(v).dtype)});
    for (std::uint64_t style : {0, 1})
      tasks.push_back({{"name", fmt::format("{}/{}, style {}", task.archetype, task.seed, style)}, {"file", in_style(task, style)}, {"outputs", shapes}});
    ++seen[task.archetype];
  };
  for (const Archetype& archetype : archetypes())
    for (std::uint64_t seed = 0; seed < 60 && seen[archetype.name] < 2; ++seed)
      if (const auto task = make_task(archetype, seed)) add(*task);
  for (std::uint64_t seed = 0; seed < 12; ++seed)
    if (const auto task = random_task(seed)) add(*task);
  ASSERT_GT(tasks.size(), 60u);
  const char* script = R"(
import json, sys, torch
torch.set_num_threads(1)
faults = []
for task in json.load(sys.stdin):
    try:
        space = {}
        exec(compile(task["file"], task["name"], "exec"), space)
        model = space["Model"](*space["get_init_inputs"]())
        with torch.no_grad():
            out = model(*space["get_inputs"]())
        out = list(out) if isinstance(out, (tuple, list)) else [out]
        got = [[list(o.shape), str(o.dtype)] for o in out]
        if got != task["outputs"]:
            faults.append(f"{task['name']}: {got} instead of {task['outputs']}")
        elif not all(torch.isfinite(o.double()).all() for o in out):
            faults.append(f"{task['name']}: not finite")
    except Exception as e:
        faults.append(f"{task['name']}: {type(e).__name__}: {e}\n{task['file']}")
print("\n".join(faults))
)";
  const auto result = base::run({.argv = {python, "-c", script}, .stdin_text = tasks.dump(), .timeout_s = 240});
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_TRUE(result->exit.ok()) << result->err;
  EXPECT_EQ(result->out, "\n");
}

// Nodes and wiring, for an interpreter that shares nothing with print.cpp.
nlohmann::json graph_json(const Graph& graph) {
  nlohmann::json values = nlohmann::json::array(), nodes = nlohmann::json::array();
  for (const Value& v : graph.values)
    values.push_back({{"name", v.name}, {"sizes", v.type.sizes()}, {"state", v.source == Source::kParameter || v.source == Source::kBuffer}});
  for (const Node& n : graph.nodes) {
    nlohmann::json attrs = nlohmann::json::object();
    for (const auto& [name, attr] : n.attrs) attrs[name] = std::visit([](const auto& value) { return nlohmann::json(value); }, attr.value);
    nodes.push_back({{"op", n.op}, {"inputs", n.inputs}, {"outputs", n.outputs}, {"attrs", attrs}});
  }
  return {{"values", values}, {"nodes", nodes}, {"inputs", graph.inputs}, {"outputs", graph.outputs}};
}

// The gates by their formulas, heads one at a time: nothing of torch.nn. In float64, with random parameters, for a new module's attention biases
// are zero.
const char* const kInterpreter = R"(
import json, sys, torch
torch.set_num_threads(1)
F = torch.nn.functional

def recurrence(kind, gates, w, b, state, batch_first):
    if not batch_first: gates = gates.transpose(0, 1)
    size = w.shape[1]
    zero = torch.zeros(gates.shape[0], size, dtype=gates.dtype)
    h, c = (state + [zero, zero])[:2]
    steps = []
    for x in gates.unbind(1):
        own = h @ w.T + (0 if b is None else b)
        if kind == "gru":
            (xr, xz, xn), (hr, hz, hn) = x.split(size, 1), own.split(size, 1)
            r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
            h = (1 - z) * torch.tanh(xn + r * hn) + z * h
        else:
            i, f, g, o = (x + own).split(size, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        steps.append(h)
    y = torch.stack(steps, 1)
    return y if batch_first else y.transpose(0, 1), h, c

def recurrent(kind, v, a):
    x, each, layers = v[0], (4 if a.get("bias", True) else 2), a.get("num_layers", 1)
    state, weights = v[1:len(v) - each * layers], v[len(v) - each * layers:]
    hs, cs = [], []
    for l in range(layers):
        w = weights[each * l:each * (l + 1)]
        gates = x @ w[0].T + (w[2] if each == 4 else 0)
        x, h, c = recurrence(kind, gates, w[1], w[3] if each == 4 else None, [s[l] for s in state], a.get("batch_first", False))
        hs.append(h)
        cs.append(c)
    return [x, torch.stack(hs)] + ([torch.stack(cs)] if kind == "lstm" else [])

def layer(kind, v, a):
    b = v[2] if len(v) > 2 and v[2].dim() == 1 else None
    y, _, c = recurrence(kind, v[0], v[1], b, v[2 if b is None else 3:], a["batch_first"])
    return [y, c] if kind == "lstm" else [y]

def heads(v, a):
    q, k, value, w = v[:4]
    bias = a.get("bias", True)
    b, out, out_b = (v[4], v[5], v[6]) if bias else (None, v[4], 0)
    if not a.get("batch_first", False): q, k, value = q.transpose(0, 1), k.transpose(0, 1), value.transpose(0, 1)
    e = q.shape[2]
    d = e // a["num_heads"]
    bs = b.split(e) if bias else (0, 0, 0)
    q, k, value = (x @ p.T + c for x, p, c in zip((q, k, value), w.split(e), bs))
    parts = [torch.softmax(q[..., i:i + d] @ k[..., i:i + d].transpose(1, 2) / d ** 0.5, -1) @ value[..., i:i + d] for i in range(0, e, d)]
    y = torch.cat(parts, 2) @ out.T + out_b
    return y if a.get("batch_first", False) else y.transpose(0, 1)

OPS = {
    "gru": lambda v, a: recurrent("gru", v, a), "lstm": lambda v, a: recurrent("lstm", v, a), "multi_head_attention": heads,
    "gru_layer": lambda v, a: layer("gru", v, a), "lstm_layer": lambda v, a: layer("lstm", v, a),
    "linear": lambda v, a: v[0] @ v[1].T + (v[2] if len(v) > 2 else 0), "select": lambda v, a: v[0].select(a["axis"], a["index"]),
    "stack": lambda v, a: torch.stack(v, a["dim"]), "unsqueeze": lambda v, a: v[0].unsqueeze(a["dim"]),
    "chunk": lambda v, a: list(v[0].chunk(a["chunks"], a["dim"])), "unflatten": lambda v, a: v[0].unflatten(a["dim"], (a["parts"], -1)),
    "transpose": lambda v, a: v[0].transpose(a["dim0"], a["dim1"]), "permute": lambda v, a: v[0].permute(a["dims"]),
    "contiguous": lambda v, a: v[0].contiguous(), "flatten": lambda v, a: v[0].flatten(a["start_dim"]),
    "matmul": lambda v, a: v[0] @ v[1], "add": lambda v, a: v[0] + v[1], "div": lambda v, a: v[0] / a["scalar"],
    "softmax": lambda v, a: torch.softmax(v[0], a["dim"]),
    "layer_norm": lambda v, a: F.layer_norm(v[0], v[1].shape, v[1], v[2], a.get("eps", 1e-5)),
    "scaled_dot_product_attention": lambda v, a: torch.softmax(v[0] @ v[1].transpose(-2, -1) / v[0].shape[-1] ** 0.5, -1) @ v[2],
}

def evaluate(graph, inputs, state):
    known = dict(zip(graph["inputs"], inputs))
    known.update((i, state[v["name"]]) for i, v in enumerate(graph["values"]) if v["state"])
    for n in graph["nodes"]:
        out = OPS[n["op"]]([known[i] for i in n["inputs"]], n["attrs"])
        known.update(zip(n["outputs"], out if isinstance(out, list) else [out]))
    for i in known:
        assert list(known[i].shape) == graph["values"][i]["sizes"], f"value {i} is {known[i].shape}"
    return [known[i] for i in graph["outputs"]]

faults = []
for task in json.load(sys.stdin):
    try:
        space = {}
        exec(compile(task["file"], task["name"], "exec"), space)
        torch.manual_seed(7)
        model = space["Model"](*space["get_init_inputs"]()).double()
        with torch.no_grad():
            for p in model.parameters(): p.copy_(torch.randn_like(p) * 0.4)
            inputs = [x.double() for x in space["get_inputs"]()]
            wanted = model(*inputs)
            wanted = list(wanted) if isinstance(wanted, (tuple, list)) else [wanted]
            for form in ("graph", "lowered"):
                got = evaluate(task[form], inputs, model.state_dict())
                if len(got) != len(wanted) or not all(a.shape == b.shape and torch.allclose(a, b, rtol=1e-9, atol=1e-9) for a, b in zip(got, wanted)):
                    faults.append(f"{task['name']}: the {form} means something else than\n{task['file']}")
    except Exception as e:
        faults.append(f"{task['name']}: {type(e).__name__}: {e}\n{task['file']}")
print("\n".join(faults))
)";

struct Call {
  std::string op;
  bool batch_first, bias, given;
  std::int64_t layers;
};

// A recurrent layer with all its results, from a state that is given or zero; attention to itself, or to what is given.
Graph call_graph(const Call& c) {
  GraphBuilder b;
  const bool heads = c.op == "multi_head_attention", lstm = c.op == "lstm";
  const Dim batch = b.dim("batch_size", 3), length = b.dim("seq_len", 5), in = b.dim(heads ? "embed_dim" : "input_size", 12);
  const auto sequence = [&](const char* name, const Dim& steps) {
    return b.input(name, DType::kF32, c.batch_first ? std::vector<Dim>{batch, steps, in} : std::vector<Dim>{steps, batch, in});
  };
  const int x = sequence("x", length);
  Attrs args{{"bias", c.bias}, {"batch_first", c.batch_first}};
  if (heads) {
    args["embed_dim"] = Attr::of(in);
    args["num_heads"] = Attr::named("num_heads", std::int64_t{3});
    const int other = c.given ? sequence("memory", b.dim("memory_len", 4)) : x;
    b.output(b.module("attn", "MultiheadAttention", c.op, {x, other, other}, args));
    return *b.build();
  }
  const Dim hidden = b.dim("hidden_size", 7);
  args["input_size"] = Attr::of(in);
  args["hidden_size"] = Attr::of(hidden);
  args["num_layers"] = c.layers;
  std::vector<int> inputs{x};
  if (c.given) inputs.push_back(b.input("h0", DType::kF32, {literal(c.layers), batch, hidden}));
  if (c.given && lstm) inputs.push_back(b.input("c0", DType::kF32, {literal(c.layers), batch, hidden}));
  b.output(b.module("rnn", lstm ? "LSTM" : "GRU", c.op, inputs, args));
  b.output(b.result(1));
  if (lstm) b.output(b.result(2));
  return *b.build();
}

// nn.GRU, nn.LSTM and nn.MultiheadAttention in every form, and tasks drawn with them: the printed file, the graph, and what the teacher makes of it
// are one computation.
TEST(PrintTask, RecurrentAndAttentionModulesMeanWhatTheGraphSays) {
  const char* python = std::getenv("MUSACODER_PYTHON");
  if (python == nullptr) GTEST_SKIP() << "MUSACODER_PYTHON is not set";
  nlohmann::json tasks = nlohmann::json::array();
  const auto add = [&](const std::string& name, const std::string& file, const Graph& graph) {
    const Result<Graph> lowered = lower(graph);
    ASSERT_TRUE(lowered) << name << ": " << lowered.error().message;
    tasks.push_back({{"name", name}, {"file", file}, {"graph", graph_json(graph)}, {"lowered", graph_json(*lowered)}});
  };
  std::uint64_t style = 0;
  for (const char* op : {"gru", "lstm", "multi_head_attention"})
    for (const bool batch_first : {false, true})
      for (const bool bias : {false, true})
        for (const bool given : {false, true})
          for (const std::int64_t layers : {1, 2, 3}) {
            if (layers > 1 && std::string_view(op) == "multi_head_attention") continue;
            const Graph graph = call_graph({op, batch_first, bias, given, layers});
            add(fmt::format("{}, batch_first {}, bias {}, given {}, layers {}", op, batch_first, bias, given, layers), print_task(graph, style_of(style++), "A test."), graph);
          }
  std::set<std::string> drawn;
  for (const char* archetype : {"network.sequence", "network.self_attention"})
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      const auto task = make_task(*find_archetype(archetype), seed);
      ASSERT_TRUE(task) << task.error().message;
      // Neighbours that a lone module is given are operators that the interpreter does not have.
      static const std::set<std::string> kKnown{"gru",       "lstm",    "multi_head_attention", "linear", "select",  "chunk",      "unflatten",
                                                "transpose", "flatten", "contiguous",           "matmul", "softmax", "layer_norm", "scaled_dot_product_attention"};
      const bool known = std::all_of(task->graph.nodes.begin(), task->graph.nodes.end(), [](const Node& n) {
        return kKnown.count(n.op) != 0 || (n.op == "add" && n.inputs.size() == 2) || (n.op == "div" && n.has("scalar"));
      });
      if (!known) continue;
      for (const char* word : {"nn.GRU(", "nn.LSTM(", "nn.MultiheadAttention(", "_, (", "[:, -1", "[-1]", "need_weights=False)[0]", "nn.LayerNorm", "bias=False", "(h0, c0)"})
        if (task->file.find(word) != std::string::npos) drawn.insert(word);
      add(fmt::format("{}/{}", archetype, seed), task->file, task->graph);
    }
  EXPECT_EQ(drawn.size(), 10u);
  EXPECT_GT(tasks.size(), 80u);
  const auto result = base::run({.argv = {python, "-c", kInterpreter}, .stdin_text = tasks.dump(), .timeout_s = 240});
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_TRUE(result->exit.ok()) << result->err;
  EXPECT_EQ(result->out, "\n");
}

}  // namespace
}  // namespace musacoder::synth
