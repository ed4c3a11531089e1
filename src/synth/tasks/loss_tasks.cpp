// Archetypes of losses and similarities.
#include "synth/tasks/tasks.h"

namespace musacoder::synth {
namespace {

constexpr const char* kDomain = "reduction";

Attrs reduction_of(Seeded& draw) { return draw.chance(0.25) ? Attrs{{"reduction", "sum"}} : Attrs{}; }

void regression(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const std::vector<Dim> dims = draw_shape_small(b, draw, draw.choose({2, 3}));
  const char* op = draw.choose({"mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss"});
  Attrs attrs = reduction_of(draw);
  if (std::string(op) == "huber_loss" && draw.chance(0.5)) attrs["delta"] = draw.choose({0.5, 2.0});
  if (std::string(op) == "smooth_l1_loss" && draw.chance(0.5)) attrs["beta"] = draw.choose({0.5, 2.0});
  b.output(b.op(op, {b.input("predictions", DType::kF32, dims), b.input("targets", DType::kF32, dims)}, attrs));
  summary = fmt::format("The {} between predictions and targets.", words(op));
}

void binary(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const std::vector<Dim> dims = draw_shape_small(b, draw, 2);
  const char* op = draw.choose({"bce_with_logits", "soft_margin_loss"});
  const bool logits = std::string(op) == "bce_with_logits";
  const int x = b.input("predictions", DType::kF32, dims);
  const int y = b.input("targets", DType::kF32, dims, logits ? Fill::kUniform : Fill::kSign);
  Attrs attrs = reduction_of(draw);
  b.output(b.op(op, {x, y}, attrs));
  summary = fmt::format("The {} of predictions for {} targets.", words(op), logits ? "soft" : "signed");
}

// max(0, 1 − p t), written with elementary operators.
void hinge(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const std::vector<Dim> dims = draw_shape_small(b, draw, 2);
  const int p = b.input("predictions", DType::kF32, dims), t = b.input("targets", DType::kF32, {dims.back()}, Fill::kSign);
  const int slack = b.op("sub", {b.op("mul", {p, t})}, {{"scalar", 1.0}, {"reversed", true}});
  b.output(b.op("mean", {b.op("clamp", {slack}, {{"min", 0.0}})}));
  summary = "Mean hinge loss.";
}

void divergence(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const std::vector<Dim> dims = draw_shape_small(b, draw, 2);
  const int p = b.input("predictions", DType::kF32, dims, Fill::kProbability), t = b.input("targets", DType::kF32, dims, Fill::kProbability);
  b.output(b.op("kl_div", {b.op("log", {p}), t}, {{"reduction", draw.choose({"sum", "mean"})}}));
  summary = "Kullback-Leibler divergence between two tables of probabilities.";
}

void classification(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const Dim batch = b.dim("batch_size", draw.choose({256, 1024, 4096})), classes = b.dim("num_classes", draw.between(10, 512));
  const int labels = b.input("targets", DType::kI64, {batch}, Fill::kIndex, Layout::kContiguous, classes);
  int x = b.input("predictions", DType::kF32, {batch, classes});
  Attrs attrs = reduction_of(draw);
  if (draw.chance(0.25)) {
    x = b.op("log_softmax", {x}, {{"dim", 1}});
    b.output(b.op("nll_loss", {x, labels}, attrs));
    summary = "Log-softmax and the negative log-likelihood of the labels.";
    return;
  }
  if (draw.chance(0.25)) attrs["label_smoothing"] = 0.1;
  b.output(b.op("cross_entropy", {x, labels}, attrs));
  summary = "Cross entropy of predictions against labels.";
}

void triplet(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const std::vector<Dim> dims{b.dim("batch_size", draw.choose({128, 512, 1024})), b.dim("features", draw.between(64, 1024))};
  const int a = b.input("anchor", DType::kF32, dims), p = b.input("positive", DType::kF32, dims), n = b.input("negative", DType::kF32, dims);
  Attrs attrs;
  if (draw.chance(0.7)) attrs["margin"] = Attr::named("margin", draw.choose({0.5, 2.0, 5.0}));
  b.output(b.op("triplet_margin_loss", {a, p, n}, attrs));
  summary = "Triplet margin loss of anchors, positives and negatives.";
}

void cosine(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const std::vector<Dim> dims{b.dim("batch_size", draw.choose({128, 512, 1024})), b.dim("features", draw.between(64, 1024))};
  const int x = b.input("x", DType::kF32, dims), y = b.input("y", DType::kF32, dims);
  const int similarity = b.op("cosine_similarity", {x, y}, {{"dim", 1}});
  if (draw.chance(0.5)) {
    b.output(similarity);
    summary = "Cosine similarity of corresponding rows.";
    return;
  }
  b.output(b.op("mean", {b.op("sub", {similarity}, {{"scalar", 1.0}, {"reversed", true}})}));
  summary = "Mean cosine distance of corresponding rows.";
}

}  // namespace

const std::vector<Archetype>& loss_archetypes() {
  static const std::vector<Archetype> table = {
      {kDomain, "loss", "loss.regression", regression}, {kDomain, "loss", "loss.binary", binary},
      {kDomain, "loss", "loss.hinge", hinge},           {kDomain, "loss", "loss.divergence", divergence},
      {kDomain, "loss", "loss.classification", classification}, {kDomain, "loss", "loss.triplet", triplet},
      {kDomain, "loss", "loss.cosine", cosine},
  };
  return table;
}

}  // namespace musacoder::synth
