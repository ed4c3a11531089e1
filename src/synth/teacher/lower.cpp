#include "synth/teacher/lower.h"

#include <map>

#include "synth/graph/ops.h"

namespace musacoder::synth {
namespace {

using In = std::vector<int>;

int unary(GraphBuilder& b, const char* op, int x, Attrs attrs = {}) { return b.op(op, {x}, std::move(attrs)); }
int with(GraphBuilder& b, const char* op, int x, double scalar, bool reversed = false) {
  Attrs attrs{{"scalar", scalar}};
  if (reversed) attrs["reversed"] = true;
  return b.op(op, {x}, std::move(attrs));
}

int finish(GraphBuilder& b, const Node& node, int each) {
  return b.op(node.text("reduction", "mean") == "sum" ? "sum" : "mean", {each});
}

int mse(GraphBuilder& b, const Node& n, const In& in) { return finish(b, n, unary(b, "square", b.op("sub", {in[0], in[1]}))); }
int l1(GraphBuilder& b, const Node& n, const In& in) { return finish(b, n, unary(b, "abs", b.op("sub", {in[0], in[1]}))); }

int huber_like(GraphBuilder& b, const Node& n, const In& in, double delta, double scale) {
  const int distance = unary(b, "abs", b.op("sub", {in[0], in[1]}));
  const int inner = with(b, "mul", unary(b, "square", distance), 0.5 * scale);
  const int outer = with(b, "mul", with(b, "sub", distance, 0.5 * delta), delta * scale);
  return finish(b, n, b.op("where", {with(b, "lt", distance, delta), inner, outer}));
}
int huber(GraphBuilder& b, const Node& n, const In& in) { return huber_like(b, n, in, n.number("delta", 1.0), 1.0); }
int smooth_l1(GraphBuilder& b, const Node& n, const In& in) {
  const double beta = n.number("beta", 1.0);
  return huber_like(b, n, in, beta, 1.0 / beta);
}

// Σ t (log t − x); "batchmean" divides by the first axis.
int kl_div(GraphBuilder& b, const Node& n, const In& in) {
  const int each = b.op("sub", {b.op("xlogy", {in[1], in[1]}), b.op("mul", {in[1], in[0]})});
  if (n.text("reduction", "mean") != "batchmean") return finish(b, n, each);
  return with(b, "div", b.op("sum", {each}), static_cast<double>(b.type(in[0]).dims[0].size));
}

int bce(GraphBuilder& b, const Node& n, const In& in) {
  const int rest = unary(b, "log1p", unary(b, "exp", unary(b, "neg", unary(b, "abs", in[0]))));
  return finish(b, n, b.op("add", {b.op("sub", {unary(b, "relu", in[0]), b.op("mul", {in[0], in[1]})}), rest}));
}
int soft_margin(GraphBuilder& b, const Node& n, const In& in) {
  return finish(b, n, unary(b, "log1p", unary(b, "exp", unary(b, "neg", b.op("mul", {in[0], in[1]})))));
}
int hinge(GraphBuilder& b, const Node& n, const In& in) {
  const int apart = unary(b, "relu", with(b, "sub", in[0], n.number("margin", 1.0), true));
  return finish(b, n, b.op("where", {with(b, "gt", in[1], 0.0), in[0], apart}));
}

int picked(GraphBuilder& b, int x, int labels) {
  const int column = b.op("unsqueeze", {labels}, {{"dim", 1}});
  return b.op("squeeze", {b.op("gather", {x, column}, {{"dim", 1}})}, {{"dim", 1}});
}
int nll(GraphBuilder& b, const Node& n, const In& in) { return finish(b, n, unary(b, "neg", picked(b, in[0], in[1]))); }
int cross_entropy(GraphBuilder& b, const Node& n, const In& in) {
  const int all = b.op("logsumexp", {in[0]}, {{"dim", 1}});
  const double smoothing = n.number("label_smoothing", 0.0);
  int each = b.op("sub", {all, picked(b, in[0], in[1])});
  if (smoothing > 0) {
    const int even = b.op("sub", {all, b.op("mean", {in[0]}, {{"dim", 1}})});
    each = b.op("add", {with(b, "mul", each, 1 - smoothing), with(b, "mul", even, smoothing)});
  }
  return finish(b, n, each);
}

int distance(GraphBuilder& b, int x, int y) {
  return b.op("norm", {with(b, "add", b.op("sub", {x, y}), 1e-6)}, {{"p", 2}, {"dim", -1}});
}
int triplet(GraphBuilder& b, const Node& n, const In& in) {
  const int gap = b.op("sub", {distance(b, in[0], in[1]), distance(b, in[0], in[2])});
  return finish(b, n, unary(b, "relu", with(b, "add", gap, n.number("margin", 1.0))));
}

int cosine(GraphBuilder& b, int x, int y, std::int64_t dim, double eps) {
  const auto length = [&](int v) { return unary(b, "clamp", b.op("norm", {v}, {{"p", 2}, {"dim", dim}}), {{"min", eps}}); };
  return b.op("div", {b.op("sum", {b.op("mul", {x, y})}, {{"dim", dim}}), b.op("mul", {length(x), length(y)})});
}
int cosine_similarity(GraphBuilder& b, const Node& n, const In& in) {
  return cosine(b, in[0], in[1], n.integer("dim", 1), n.number("eps", 1e-8));
}

// Labels ±1.
int cosine_embedding(GraphBuilder& b, const Node& n, const In& in) {
  const int share = cosine(b, in[0], in[1], 1, 1e-8);
  const int alike = with(b, "sub", share, 1.0, true);
  const int other = unary(b, "relu", with(b, "sub", share, n.number("margin", 0.0)));
  return finish(b, n, b.op("where", {with(b, "gt", in[2], 0.0), alike, other}));
}

using Rule = int (*)(GraphBuilder&, const Node&, const In&);
const std::map<std::string, Rule>& rules() {
  static const std::map<std::string, Rule> table = {{"mse_loss", mse},
                                                    {"l1_loss", l1},
                                                    {"huber_loss", huber},
                                                    {"smooth_l1_loss", smooth_l1},
                                                    {"kl_div", kl_div},
                                                    {"bce_with_logits", bce},
                                                    {"soft_margin_loss", soft_margin},
                                                    {"hinge_embedding_loss", hinge},
                                                    {"nll_loss", nll},
                                                    {"cross_entropy", cross_entropy},
                                                    {"triplet_margin_loss", triplet},
                                                    {"cosine_similarity", cosine_similarity},
                                                    {"cosine_embedding_loss", cosine_embedding}};
  return table;
}

class Lowering {
 public:
  explicit Lowering(const Graph& graph) : graph_(graph), place_(b_.begin_like(graph)) {}

  Result<Graph> run() {
    for (const Node& node : graph_.nodes) {
      if (node.op == "gru" || node.op == "lstm") recurrent(node);
      else if (node.op == "multi_head_attention") attention(node);
      else if (const auto states = states_.find(node.inputs[0]); node.op == "select" && states != states_.end() && node.integer("axis") == 0) place(node, 0) = state(states->second, node.integer("index"));
      else other(node);
    }
    for (int v : graph_.outputs) b_.output(use(v));
    return b_.build();
  }

 private:
  // What a recurrent layer leaves behind: its sequence, of which the last step is wanted, or the state itself.
  struct States {
    std::vector<int> layers;
    bool sequences = false;
    std::int64_t time_axis = 0;
  };

  int& place(const Node& node, std::size_t k) { return place_[static_cast<std::size_t>(node.outputs[k])]; }
  In inputs(const Node& node) {
    In all;
    for (int v : node.inputs) all.push_back(use(v));
    return all;
  }
  bool wanted(int value) const { return graph_.is_output(value) || !graph_.users(value).empty(); }

  // The value's place; states of all layers become one tensor when something reads them as one.
  int use(int value) {
    int& at = place_[static_cast<std::size_t>(value)];
    const auto states = states_.find(value);
    if (at >= 0 || states == states_.end()) return at;
    In layers;
    for (std::size_t k = 0; k < states->second.layers.size(); ++k) layers.push_back(state(states->second, static_cast<std::int64_t>(k)));
    at = layers.size() == 1 ? b_.op("unsqueeze", {layers[0]}, {{"dim", 0}}) : b_.op("stack", layers, {{"dim", 0}});
    return at;
  }
  int state(const States& states, std::int64_t layer) {
    const std::int64_t count = static_cast<std::int64_t>(states.layers.size());
    const int value = states.layers[static_cast<std::size_t>((layer + count) % count)];
    return states.sequences ? b_.op("select", {value}, {{"axis", states.time_axis}, {"index", -1}}) : value;
  }

  // Layer by layer: all steps' input projections are one product, then comes what goes from step to step.
  void recurrent(const Node& node) {
    const bool lstm = node.op == "lstm", batch_first = node.flag("batch_first");
    const std::int64_t layers = node.integer("num_layers", 1);
    const std::size_t each = node.flag("bias", true) ? 4 : 2;
    const In in = inputs(node);
    const std::size_t first = in.size() - each * static_cast<std::size_t>(layers);
    States hidden{{}, true, batch_first ? 1 : 0}, cells;
    int x = in[0];
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      const std::size_t at = first + each * static_cast<std::size_t>(layer);
      In projection{x, in[at]};
      if (each == 4) projection.push_back(in[at + 2]);
      In step{b_.op("linear", projection), in[at + 1]};
      if (each == 4) step.push_back(in[at + 3]);
      for (std::size_t s = 1; s < first; ++s) step.push_back(b_.op("select", {in[s]}, {{"axis", 0}, {"index", layer}}));
      x = b_.op(lstm ? "lstm_layer" : "gru_layer", step, {{"batch_first", batch_first}});
      hidden.layers.push_back(x);
      if (lstm) cells.layers.push_back(b_.result(1));
    }
    place(node, 0) = x;
    if (wanted(node.outputs[1])) states_[node.outputs[1]] = hidden;
    if (lstm && wanted(node.outputs[2])) states_[node.outputs[2]] = cells;
  }

  // Projections, heads beside each other, attention, the output's projection. What attends to itself has one product for all three.
  void attention(const Node& node) {
    const bool bias = node.flag("bias", true), batch_first = node.flag("batch_first");
    const In in = inputs(node);
    const Module& module = graph_.modules[static_cast<std::size_t>(node.module)];
    const Attr heads = Attr::named(module.name + ".num_heads", node.integer("num_heads", 1));
    const int weight = in[3], in_bias = bias ? in[4] : -1;
    const auto project = [&](int x, int w, int own_bias) { return b_.op("linear", bias ? In{x, w, own_bias} : In{x, w}); };
    const auto parts = [&](int value, std::int64_t axis) {
      const int part = b_.op("chunk", {value}, {{"chunks", 3}, {"dim", axis}});
      return In{part, b_.result(1), b_.result(2)};
    };
    In projected;
    if (in[0] == in[1] && in[0] == in[2]) {
      projected = parts(project(in[0], weight, in_bias), 2);
    } else {
      const In weights = parts(weight, 0), biases = bias ? parts(in_bias, 0) : In{-1, -1, -1};
      for (std::size_t k = 0; k < 3; ++k) projected.push_back(project(in[k], weights[k], biases[k]));
    }
    for (int& value : projected) {
      value = b_.op("unflatten", {value}, {{"dim", 2}, {"parts", heads}});
      value = batch_first ? b_.op("transpose", {value}, {{"dim0", 1}, {"dim1", 2}}) : b_.op("permute", {value}, {{"dims", std::vector<std::int64_t>{1, 2, 0, 3}}});
    }
    int y = b_.op("scaled_dot_product_attention", projected);
    y = batch_first ? b_.op("transpose", {y}, {{"dim0", 1}, {"dim1", 2}}) : b_.op("permute", {y}, {{"dims", std::vector<std::int64_t>{2, 0, 1, 3}}});
    y = b_.op("flatten", {b_.op("contiguous", {y})}, {{"start_dim", 2}});
    place(node, 0) = project(y, in[bias ? 5 : 4], bias ? in[6] : -1);
  }

  void other(const Node& node) {
    In in = inputs(node);
    if (const auto rule = rules().find(node.op); rule != rules().end()) {
      place(node, 0) = rule->second(b_, node, in);
      return;
    }
    b_.copy(node, std::move(in));
    for (std::size_t k = 0; k < node.outputs.size(); ++k) place(node, k) = b_.result(static_cast<int>(k));
  }

  const Graph& graph_;
  GraphBuilder b_;
  std::vector<int> place_;         // of the graph's values in the new one
  std::map<int, States> states_;   // of h_n and c_n, by value
};

}  // namespace

Result<Graph> lower(const Graph& graph) { return Lowering(graph).run(); }

}  // namespace musacoder::synth
