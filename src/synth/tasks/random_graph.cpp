// Random operator graphs: nodes on values that exist, with what their shapes and types allow; the values that nobody used are summed up or
// returned.
#include <algorithm>

#include "synth/graph/ops.h"
#include "synth/graph/print.h"
#include "synth/tasks/tasks.h"
#include "synth/tasks/variants.h"

namespace musacoder::synth {
namespace {

class Growth {
 public:
  Growth(GraphBuilder& b, Seeded& draw, const RandomKnobs& knobs) : b_(b), draw_(draw), knobs_(knobs) {}

  void grow(std::string& summary) {
    const int rank = draw_.choose(knobs_.ranks);
    const DType dtype = draw_.choose(knobs_.dtypes);
    dims_ = draw_shape_small(b_, draw_, rank);
    const char* const names[] = {"x", "y", "z"};
    const std::int64_t inputs = draw_.between(1, 3);
    for (std::int64_t k = 0; k < inputs; ++k) values_.push_back(b_.input(names[k], dtype, k == 0 ? dims_ : operand_shape()));
    const std::int64_t nodes = draw_.between(knobs_.least_nodes, knobs_.most_nodes);
    int last = values_[0];
    for (std::int64_t k = 0; k < nodes && !b_.failed(); ++k) {
      const int next = step(k + 1 == nodes);
      if (next < 0) continue;
      values_.push_back(next);
      last = next;
    }
    b_.output(last);
    summary = fmt::format("A graph of {} operators on {} input{}.", nodes, inputs, inputs == 1 ? "" : "s");
  }

 private:
  std::vector<Dim> operand_shape() {
    switch (draw_.below(4)) {
      case 0: return {dims_.back()};
      case 1: {
        std::vector<Dim> column = dims_;
        column.back() = literal(1);
        return column;
      }
      default: return dims_;
    }
  }
  bool allowed(const char* op) const {
    return knobs_.include.empty() || std::count(knobs_.include.begin(), knobs_.include.end(), std::string(op)) != 0;
  }
  // One of `ops` that the knobs include; nullptr where none is.
  const char* pick(const std::vector<const char*>& ops) {
    std::vector<const char*> some;
    std::copy_if(ops.begin(), ops.end(), std::back_inserter(some), [&](const char* op) { return allowed(op); });
    return some.empty() ? nullptr : draw_.choose(some);
  }
  // Recent values are drawn more often, so that graphs are deep rather than wide.
  int value() { return draw_.chance(0.6) ? values_.back() : draw_.choose(values_); }
  // A value whose shape is that of the whole.
  int whole() {
    std::vector<int> some;
    for (int v : values_)
      if (b_.type(v).rank() == static_cast<int>(dims_.size()) && b_.type(v).numel() == full()) some.push_back(v);
    return some.empty() ? values_[0] : draw_.chance(0.6) ? some.back() : draw_.choose(some);
  }
  std::int64_t full() const {
    std::int64_t n = 1;
    for (const Dim& d : dims_) n *= d.size;
    return n;
  }

  int step(bool last) {
    static const std::vector<const char*> kUnary = {"relu", "gelu", "silu", "tanh", "sigmoid", "abs", "square", "neg", "softplus", "hardswish",
                                                    "leaky_relu", "elu", "mish", "sin", "cos", "erf", "atan", "softsign"};
    static const std::vector<const char*> kBinary = {"add", "sub", "mul", "maximum", "minimum", "add", "mul"};
    static const std::vector<const char*> kRows = {"softmax", "mean_back", "amax_back", "layer_norm", "sum_last", "amax_last", "mean_last"};
    static const std::vector<const char*> kLayout = {"roll", "flip", "tril", "pad"};
    const double p = draw_.real();
    if (p < knobs_.row_operators) {
      const char* op = pick(kRows);
      const int x = whole();
      const std::string name = op == nullptr ? "" : op;
      if (name == "softmax") return b_.op("softmax", {x}, {{"dim", -1}});
      if (name == "layer_norm") return b_.op("layer_norm", {x}, {{"normalized_shape", Attr(std::vector<std::int64_t>{dims_.back().size})}, {"eps", 1e-5}});
      if (name.find("_back") != std::string::npos)
        return b_.op("sub", {x, b_.op(name.substr(0, 4).c_str(), {x}, {{"dim", -1}, {"keepdim", true}})});
      if (!name.empty() && last) return b_.op(name.substr(0, name.find('_')), {x}, {{"dim", -1}});
    } else if (p < knobs_.row_operators + knobs_.layout_operators) {
      const char* op = pick(kLayout);
      const int x = whole();
      const std::string name = op == nullptr ? "" : op;
      if (name == "roll") return b_.op("roll", {x}, {{"shifts", draw_.choose({1, -2, 5})}, {"dims", -1}});
      if (name == "flip") return b_.op("flip", {x}, {{"dims", std::vector<std::int64_t>{-1}}});
      if (name == "tril" && dims_.size() >= 2) return b_.op("tril", {x});
      if (name == "pad" && last) return b_.op("pad", {x}, {{"pad", std::vector<std::int64_t>{1, 2}}});
    }
    if (draw_.chance(0.45)) {
      if (const char* op = pick(kBinary)) {
        if (draw_.chance(0.3)) return b_.op(std::string(op) == "maximum" || std::string(op) == "minimum" ? "add" : op, {value()}, {{"scalar", draw_.choose({0.5, 2.0, 1.5, -1.0})}});
        const int x = whole(), y = value();
        if (x != y) return b_.op(op, {x, y});
      }
    }
    if (const char* op = pick(kUnary)) return b_.op(op, {whole()});
    return -1;
  }

  GraphBuilder& b_;
  Seeded& draw_;
  const RandomKnobs& knobs_;
  std::vector<Dim> dims_;
  std::vector<int> values_;
};

// Nodes that no output needs are left out; inputs that are then unused too.
Result<Graph> used_part(const Graph& graph) {
  std::vector<bool> needed(graph.values.size(), false);
  for (int v : graph.outputs) needed[static_cast<std::size_t>(v)] = true;
  for (std::size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    if (std::any_of(node.outputs.begin(), node.outputs.end(), [&](int v) { return needed[static_cast<std::size_t>(v)]; }))
      for (int v : node.inputs) needed[static_cast<std::size_t>(v)] = true;
  }
  GraphBuilder b;
  std::vector<int> place(graph.values.size(), -1);
  for (const auto& [name, size] : graph.constants) b.dim(name, size);
  for (int v : graph.inputs)
    if (needed[static_cast<std::size_t>(v)]) {
      const Value& value = graph.values[static_cast<std::size_t>(v)];
      place[static_cast<std::size_t>(v)] = b.input(value.name, value.type.dtype, value.type.dims, value.fill, value.layout, value.limit);
    }
  for (const Node& node : graph.nodes) {
    if (!needed[static_cast<std::size_t>(node.outputs[0])]) continue;
    std::vector<int> in;
    for (int v : node.inputs) in.push_back(place[static_cast<std::size_t>(v)]);
    b.copy(node, std::move(in));
    for (std::size_t k = 0; k < node.outputs.size(); ++k) place[static_cast<std::size_t>(node.outputs[k])] = b.result(static_cast<int>(k));
  }
  for (int v : graph.outputs) b.output(place[static_cast<std::size_t>(v)]);
  return b.build();
}

}  // namespace

Result<DrawnTask> random_task(std::uint64_t seed, const RandomKnobs& knobs) {
  if (knobs.ranks.empty() || knobs.dtypes.empty() || knobs.least_nodes < 1 || knobs.most_nodes < knobs.least_nodes)
    return fail(Code::kInvalidArgument, "random graphs need ranks, dtypes and 1 <= least_nodes <= most_nodes");
  GraphBuilder builder;
  Seeded draw(mix(seed, "random graph"));
  DrawnTask task;
  Growth(builder, draw, knobs).grow(task.summary);
  MC_ASSIGN_OR_RETURN(const Graph all, builder.build());
  MC_ASSIGN_OR_RETURN(task.graph, used_part(all));
  if (task.graph.nodes.empty()) return fail(Code::kInvalidArgument, "the graph computes nothing");
  Seeded vary(mix(seed, "variants"));
  name_arguments(task.graph, vary);
  task.file = print_task(task.graph, style_of(mix(seed, "print")), task.summary);
  task.domain = "random";
  task.family = "random_graph";
  task.archetype = "random.graph";
  task.seed = seed;
  task.level = 2;
  return task;
}

}  // namespace musacoder::synth
