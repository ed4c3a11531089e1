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

}  // namespace
}  // namespace musacoder::synth
