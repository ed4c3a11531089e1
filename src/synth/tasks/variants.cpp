#include "synth/tasks/variants.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "synth/tasks/tasks.h"

namespace musacoder::synth {
namespace {

// Finite for every finite argument of moderate size.
int anything(GraphBuilder& b, Seeded& draw, int x, std::string& said) {
  static const std::vector<const char*> kUnary{"relu", "sigmoid", "tanh", "abs", "silu", "gelu", "square", "neg", "hardswish", "softplus"};
  if (draw.chance(0.55)) {
    const char* op = draw.choose(kUnary);
    said = words(op);
    return b.op(op, {x});
  }
  const double by = draw.choose({0.5, 2.0, 1.5, 0.1, 3.0});
  static const std::vector<std::pair<const char*, const char*>> kNumbers{{"mul", "a scale"}, {"add", "a shift"}, {"sub", "a subtraction"}, {"div", "a division"}};
  const auto& [op, word] = draw.choose(kNumbers);
  said = word;
  return b.op(op, {x}, {{"scalar", by}});
}

// Nodes whose first operand is `was` read `is` instead.
Result<Graph> rebuilt(const Graph& graph, Seeded& draw, bool before, int behind, std::string& said) {
  GraphBuilder b;
  std::vector<int> place = b.begin_like(graph);
  if (before) {
    int& first = place[static_cast<std::size_t>(graph.inputs[0])];
    std::string word;
    first = anything(b, draw, first, word);
    said += " of " + word;
  }
  for (const Node& node : graph.nodes) {
    std::vector<int> in;
    for (int v : node.inputs) in.push_back(place[static_cast<std::size_t>(v)]);
    b.copy(node, std::move(in));
    for (std::size_t k = 0; k < node.outputs.size(); ++k) place[static_cast<std::size_t>(node.outputs[k])] = b.result(static_cast<int>(k));
  }
  for (int v : graph.outputs) {
    int y = place[static_cast<std::size_t>(v)];
    for (int k = 0; k < behind; ++k) {
      std::string word;
      y = anything(b, draw, y, word);
      said += (k == 0 ? ", followed by " : " and ") + word;
    }
    b.output(y);
  }
  return b.build();
}

class Names {
 public:
  Names(Graph& graph, Seeded& draw) : graph_(graph), draw_(draw) {
    for (const auto& [name, size] : graph.constants) taken_.emplace(name, Attr::Value(size));
    for (const Value& value : graph.values) others_.insert(value.name);
    for (const Module& module : graph.modules) others_.insert(module.name);
    for (const Module& module : graph.modules)
      for (const auto& [key, attr] : module.args) keep(attr);
    for (const Node& node : graph.nodes)
      for (const auto& [key, attr] : node.attrs) keep(attr);
  }

  // A name for a literal, where it is free or stands for the same.
  void give(Attr& attr, const std::string& name) {
    if (!attr.constant.empty() || others_.count(name) != 0) return;
    const auto [it, fresh] = taken_.emplace(name, attr.value);
    if (fresh || it->second == attr.value) attr.constant = name;
  }

  // What is optional is written out, as benchmarks do whose constructors take all of it.
  void spell_out(Module& module) {
    if (module.kind.rfind("Conv", 0) != 0) return;
    for (const char* name : {"stride", "dilation", "groups"}) module.args.emplace(name, Attr(1));
    module.args.emplace("padding", Attr(0));
    if (module.kind.find("Transpose") != std::string::npos) module.args.emplace("output_padding", Attr(0));
    module.args.emplace("bias", Attr(true));
  }

  void members() {
    for (Module& module : graph_.modules) {
      const bool many = draw_.chance(0.6);
      if (many && draw_.chance(0.6)) spell_out(module);
      for (auto& [name, attr] : module.args)
        if (name != "dtype" && name != "momentum" && draw_.chance(many ? 0.85 : 0.3)) give(attr, name);
    }
  }

  void operators() {
    static const std::map<std::string, const char*> kScalars{{"mul", "scaling_factor"}, {"div", "divisor"}, {"add", "add_value"}, {"sub", "subtract_value"},
                                                             {"pow", "exponent"}, {"gt", "threshold"}, {"lt", "threshold"}};
    static const std::map<std::string, const char*> kNames{{"eps", "eps"}, {"negative_slope", "negative_slope"}, {"alpha", "alpha"}, {"min", "min_val"}, {"max", "max_val"},
                                                           {"kernel_size", "kernel_size"}, {"stride", "stride"}, {"padding", "padding"}, {"dilation", "dilation"},
                                                           {"output_size", "output_size"}, {"dim", "dim"}, {"beta", "beta"}, {"threshold", "threshold"}};
    for (Node& node : graph_.nodes) {
      if (node.module >= 0 || node.flag("reversed")) continue;
      for (auto& [key, attr] : node.attrs) {
        const auto scalar = kScalars.find(node.op);
        const auto other = kNames.find(key);
        const bool list = std::holds_alternative<std::vector<std::int64_t>>(attr.value);
        if (key == "scalar" && scalar != kScalars.end() && draw_.chance(0.4)) give(attr, scalar->second);
        else if (other != kNames.end() && !list && draw_.chance(0.5)) give(attr, other->second);
      }
    }
  }

 private:
  void keep(const Attr& attr) {
    if (!attr.constant.empty()) taken_.emplace(attr.constant, attr.value);
  }

  Graph& graph_;
  Seeded& draw_;
  std::map<std::string, Attr::Value> taken_;
  std::set<std::string> others_;
};

}  // namespace

void surround(Graph& graph, Seeded& draw, std::string& summary) {
  if (graph.inputs.empty() || graph.outputs.size() != 1) return;
  const Value& first = graph.values[static_cast<std::size_t>(graph.inputs[0])];
  const bool before = draw.chance(0.4) && is_float(first.type.dtype) && first.fill == Fill::kNormal && first.layout == Layout::kContiguous;
  const bool floats = is_float(graph.type(graph.outputs[0]).dtype);
  const int behind = !floats ? 0 : before ? static_cast<int>(draw.below(2)) : static_cast<int>(draw.between(1, 2));
  if (!before && behind == 0) return;
  std::string said;
  Result<Graph> other = rebuilt(graph, draw, before, behind, said);
  if (!other) return;
  graph = std::move(*other);
  if (summary.ends_with('.')) summary.pop_back();
  summary += said;
}

void name_arguments(Graph& graph, Seeded& draw) {
  Constructor& form = graph.constructor;
  form.annotated = draw.chance(0.5);
  form.keywords_from = draw.chance(0.5) ? 99 : draw.choose({0, 2, 3, 3});
  form.spread_kernel = draw.chance(0.2);
  form.shape_arguments = draw.chance(0.35);
  const bool with_defaults = draw.chance(0.4);
  form.defaults = with_defaults ? static_cast<int>(draw.between(1, 6)) : 0;
  Names names(graph, draw);
  names.members();
  if (draw.chance(0.6)) names.operators();
}

}  // namespace musacoder::synth
