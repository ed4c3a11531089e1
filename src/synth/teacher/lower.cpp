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

}  // namespace

Result<Graph> lower(const Graph& graph) {
  GraphBuilder b;
  std::vector<int> place = b.begin_like(graph);
  for (const Node& node : graph.nodes) {
    In inputs;
    for (int v : node.inputs) inputs.push_back(place[static_cast<std::size_t>(v)]);
    const auto rule = rules().find(node.op);
    if (rule == rules().end()) {
      b.copy(node, std::move(inputs));
      for (std::size_t k = 0; k < node.outputs.size(); ++k) place[static_cast<std::size_t>(node.outputs[k])] = b.result(static_cast<int>(k));
    } else {
      place[static_cast<std::size_t>(node.outputs[0])] = rule->second(b, node, inputs);
    }
  }
  for (int v : graph.outputs) b.output(place[static_cast<std::size_t>(v)]);
  return b.build();
}

}  // namespace musacoder::synth
