// Archetypes of softmax, normalisations and chains around them.
#include "synth/tasks/tasks.h"

namespace musacoder::synth {
namespace {

void soft(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const int rank = draw.choose({2, 2, 3, 4});
  int x = b.input("x", draw_float(draw), draw_shape(b, draw, rank), Fill::kNormal, draw_layout(draw, rank));
  const char* op = draw.choose({"softmax", "softmax", "log_softmax", "softmin"});
  std::string said;
  if (draw.chance(0.3)) {
    const double by = draw.choose({0.5, 2.0, 0.125, 0.1});
    x = draw.chance(0.5) ? b.op("mul", {x}, {{"scalar", by}}) : b.op("div", {x}, {{"scalar", Attr::named("temperature", draw.choose({0.5, 2.0}))}});
    said = " of the scaled input";
  }
  const std::int64_t dim = draw.chance(0.65) ? -1 : draw.between(0, rank - 1);
  x = b.op(op, {x}, {{"dim", dim}});
  summary = fmt::format("{}{} along {}", words(op), said, dim == -1 ? "the last axis" : fmt::format("axis {}", dim));
  summary[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(summary[0])));
  if (draw.chance(0.25)) {
    x = b.op("mul", {x}, {{"scalar", draw.choose({2.0, 0.5})}});
    summary += ", scaled";
  }
  summary += ".";
  b.output(x);
}

void masked_softmax(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const std::vector<Dim> dims = draw_shape(b, draw, draw.choose({2, 3}));
  const int x = b.input("scores", DType::kF32, dims);
  const int mask = b.input("mask", DType::kBool, draw.chance(0.5) ? dims : std::vector<Dim>{dims.back()}, Fill::kMask);
  b.output(b.op("softmax", {b.op("masked_fill", {x, mask}, {{"value", draw.choose({-10000.0, -1e9})}})}, {{"dim", -1}}));
  summary = "Softmax of scores of which some are masked.";
}

int maybe_activation(GraphBuilder& b, Seeded& draw, int x, std::string& summary) {
  if (!draw.chance(0.4)) return x;
  const char* op = draw.choose({"relu", "gelu", "silu", "tanh", "sigmoid", "hardswish"});
  summary += ", then " + words(op);
  return b.op(op, {x});
}

void layer_norm(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const bool rms = draw.chance(0.35);
  const DType dtype = draw_float(draw);
  const std::vector<Dim> dims = draw_shape(b, draw, draw.choose({2, 3, 3}));
  int x = b.input("x", dtype, dims);
  summary = rms ? "RMS normalisation over the last axis" : "Layer normalisation over the last axis";
  if (draw.chance(0.25)) {
    x = b.op("add", {x, b.input("residual", dtype, dims)});
    summary = "A residual sum, then " + std::string(rms ? "RMS" : "layer") + " normalisation over the last axis";
  }
  Attrs args{{"normalized_shape", Attr::of(dims.back())}};
  if (rms || draw.chance(0.3)) args["eps"] = draw.choose({1e-5, 1e-6});
  int y;
  if (draw.chance(0.6)) {
    y = b.module(rms ? "rms" : "norm", rms ? "RMSNorm" : "LayerNorm", rms ? "rms_norm" : "layer_norm", {x}, args);
  } else {
    std::vector<int> in{x, b.parameter("weight", dtype, {dims.back()}, Fill::kNearOne)};
    if (!rms) in.push_back(b.parameter("bias", dtype, {dims.back()}, Fill::kSmall));
    args.emplace("eps", Attr(1e-5));
    y = b.op(rms ? "rms_norm" : "layer_norm", in, args);
  }
  y = maybe_activation(b, draw, y, summary);
  summary += ".";
  b.output(y);
}

// Written out with elementary operators, as many models do.
void rms_by_hand(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const int rank = draw.choose({2, 3, 4});
  const std::vector<Dim> dims = draw_shape(b, draw, rank);
  const int x = b.input("x", DType::kF32, dims);
  const std::int64_t dim = draw.chance(0.6) ? -1 : 1;
  const int mean = b.op("mean", {b.op("square", {x})}, {{"dim", dim}, {"keepdim", true}});
  const int root = b.op("sqrt", {b.op("add", {mean}, {{"scalar", Attr::named("eps", 1e-5)}})});
  b.output(b.op("div", {x, root}));
  summary = "RMS normalisation written with elementary operators.";
}

void unit_length(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const int rank = draw.choose({2, 3});
  const int x = b.input("x", draw_float(draw), draw_shape(b, draw, rank));
  const std::int64_t p = draw.choose({1, 2, 2});
  const std::int64_t dim = draw.chance(0.7) ? -1 : 1;
  Attrs attrs{{"dim", dim}};
  if (p != 2) attrs["p"] = p;
  b.output(b.op("normalize", {x}, attrs));
  summary = fmt::format("Normalisation to unit L{} length along {}.", p, dim == -1 ? "the last axis" : "axis 1");
}

void frobenius(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const int x = b.input("x", DType::kF32, draw_shape(b, draw, draw.choose({2, 3, 4})));
  b.output(b.op("div", {x, b.op("norm", {x}, {{"p", 2}})}));
  summary = "Divides by the Frobenius norm of the whole tensor.";
}

void channel_norm(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const int which = static_cast<int>(draw.below(4));
  const std::int64_t groups = draw.choose({4, 8});
  const Dim n = b.dim("batch_size", draw.choose({8, 16, 32, 64})), c = b.dim("channels", draw.choose({16, 32, 64, 96}));
  std::vector<Dim> dims{n, c};
  const int spatial = draw.choose({1, 2, 2, 3});
  static const char* const names[] = {"depth", "height", "width"};
  for (int d = 3 - spatial; d < 3; ++d) dims.push_back(b.dim(names[d], spatial == 3 ? draw.choose({8, 12, 16}) : draw.choose({14, 28, 32, 56, 64})));
  const int x = b.input("x", DType::kF32, dims);
  const std::string suffix = fmt::format("{}d", spatial);
  int y;
  if (which == 0) {
    y = b.module("norm", "GroupNorm", "group_norm", {x}, {{"num_groups", Attr::named("num_groups", groups)}, {"num_channels", Attr::of(c)}});
    summary = "Group normalisation";
  } else if (which == 1) {
    const bool affine = draw.chance(0.4);
    Attrs args{{"num_features", Attr::of(c)}};
    if (affine) args["affine"] = true;
    y = b.module("inorm", "InstanceNorm" + suffix, "instance_norm", {x}, args);
    summary = "Instance normalisation";
  } else if (which == 2) {
    y = b.module("bn", "BatchNorm" + suffix, "batch_norm", {x}, {{"num_features", Attr::of(c)}}, {{"training", true}});
    summary = "Batch normalisation with the batch's own statistics";
  } else {
    const int scaled = b.op("mul", {x}, {{"scalar", draw.choose({0.5, 2.0})}});
    y = b.module("gn", "GroupNorm", "group_norm", {scaled}, {{"num_groups", Attr::named("num_groups", groups)}, {"num_channels", Attr::of(c)}});
    summary = "A scale and group normalisation";
  }
  y = maybe_activation(b, draw, y, summary);
  summary += ".";
  b.output(y);
}

}  // namespace

const std::vector<Archetype>& norm_archetypes() {
  static const std::vector<Archetype> table = {
      {"activation", "softmax", "activation.softmax", soft},
      {"activation", "softmax", "activation.masked_softmax", masked_softmax},
      {"nn_layers", "norm", "nn.layer_norm", layer_norm},
      {"nn_layers", "norm", "nn.rms_by_hand", rms_by_hand},
      {"nn_layers", "norm", "nn.unit_length", unit_length},
      {"nn_layers", "norm", "nn.frobenius", frobenius},
      {"nn_layers", "norm", "nn.channel_norm", channel_norm},
  };
  return table;
}

}  // namespace musacoder::synth
