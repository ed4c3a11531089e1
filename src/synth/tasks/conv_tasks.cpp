// Tasks around convolutions and pooling, alone and with the chains, norms and reductions that follow them.
#include <algorithm>
#include <utility>

#include "synth/tasks/chains.h"
#include "synth/tasks/tasks.h"

namespace musacoder::synth {
namespace {

// Input (batch, channels, spatial …) with names that shape scaling understands.
std::vector<Dim> image(GraphBuilder& b, Seeded& draw, int axes, const Dim& channels, std::int64_t least) {
  static const std::vector<const char*> kNames[] = {{}, {"length"}, {"height", "width"}, {"depth", "height", "width"}};
  std::vector<Dim> dims{b.dim("batch_size", draw.choose({4, 8, 16, 32, 64, 128})), channels};
  const bool square = draw.chance(0.5);
  std::int64_t first = 0;
  for (std::size_t k = 0; k < static_cast<std::size_t>(axes); ++k) {
    std::int64_t size = axes == 1 ? draw.choose({128, 256, 512, 1000, 2048}) : axes == 2 ? draw.choose({28, 32, 48, 56, 64, 37}) : draw.choose({8, 12, 16, 20});
    size = std::max(size, least);
    if (square && k > 0) size = first;
    first = size;
    dims.push_back(b.dim(kNames[axes][k], size));
  }
  return dims;
}

std::string conv_kind(int axes, bool transposed) { return (transposed ? "ConvTranspose" : "Conv") + std::to_string(axes) + "d"; }
std::string conv_op(int axes, bool transposed) { return (transposed ? "conv_transpose" : "conv") + std::to_string(axes) + "d"; }

Attr per_axis(std::int64_t all, Seeded& draw, int axes, std::initializer_list<std::int64_t> others) {
  if (axes == 1 || draw.chance(0.75)) return Attr(all);
  std::vector<std::int64_t> list;
  for (int k = 0; k < axes; ++k) list.push_back(k == 0 ? all : draw.choose(others));
  return Attr(list);
}

struct ConvForm {
  int axes = 2;
  bool transposed = false, plain = false;  // plain: stride 1 and no dilation
};

// A convolution as a member of __init__; its result. Two of five have no bias, whatever follows: a file for one with a bias, given one
// without, hands None to its kernel.
int conv(GraphBuilder& b, Seeded& draw, const ConvForm& form, int x, const Dim& in, const Dim& out, const char* name, bool bias = true) {
  const std::int64_t kernel = form.axes == 3 ? draw.choose({2, 3, 3}) : draw.choose({3, 3, 5, 1, 2});
  Attrs args{{"in_channels", Attr::of(in)}, {"out_channels", Attr::of(out)}, {"kernel_size", Attr::named("kernel_size", kernel)}};
  if (form.axes > 1 && draw.chance(0.15)) args["kernel_size"] = per_axis(kernel, draw, form.axes, {1, 3, 5});
  const bool one_number = std::holds_alternative<std::int64_t>(args["kernel_size"].value);
  if (!form.plain && draw.chance(0.5)) args["stride"] = per_axis(draw.choose({2, 2, 3}), draw, form.axes, {1, 2});
  if (draw.chance(0.5) && one_number) args["padding"] = kernel / 2 == 0 ? std::int64_t{1} : kernel / 2;
  if (!form.plain && draw.chance(0.2)) args["dilation"] = 2;
  if (form.transposed && args.count("stride") != 0 && draw.chance(0.4) && std::holds_alternative<std::int64_t>(args["stride"].value)) args["output_padding"] = 1;
  if (!bias || draw.chance(0.4)) args["bias"] = false;
  return b.module(name, conv_kind(form.axes, form.transposed), conv_op(form.axes, form.transposed), {x}, args);
}

std::string words_of(const ConvForm& form) {
  return std::to_string(form.axes) + "D " + (form.transposed ? "transposed convolution" : "convolution");
}

std::pair<Dim, Dim> channels(GraphBuilder& b, Seeded& draw, int axes) {
  const Dim in = b.dim("in_channels", axes == 3 ? draw.choose({3, 4, 8, 16}) : draw.choose({3, 4, 8, 16, 32, 64}));
  return {in, b.dim("out_channels", axes == 3 ? draw.choose({8, 16, 24}) : draw.choose({8, 16, 32, 64, 20}))};
}

template <int kAxes, bool kTransposed>
void plain(GraphBuilder& b, Seeded& draw, std::string& text) {
  const ConvForm form{kAxes, kTransposed, draw.chance(0.4)};
  const auto [in, out] = channels(b, draw, kAxes);
  const int x = b.input("x", kAxes == 3 || draw.chance(0.85) ? DType::kF32 : draw_float(draw), image(b, draw, kAxes, in, 8));
  b.output(conv(b, draw, form, x, in, out, kTransposed ? "conv_transpose" : "conv", draw.chance(0.6)));
  text = "A " + words_of(form);
}

// Weights as an input: F.conv2d(x, w).
void functional(GraphBuilder& b, Seeded& draw, std::string& text) {
  const auto [in, out] = channels(b, draw, 2);
  const std::int64_t k = draw.choose({1, 3, 5});
  const int x = b.input("x", DType::kF32, image(b, draw, 2, in, 8));
  const int w = b.parameter("weight", DType::kF32, {out, in, literal(k), literal(k)});
  Attrs attrs;
  if (draw.chance(0.5)) attrs["padding"] = k / 2;
  if (draw.chance(0.4)) attrs["stride"] = 2;
  b.output(b.op("conv2d", {x, w}, attrs));
  text = "A 2D convolution with its weight as a parameter";
}

template <int kAxes>
void depthwise(GraphBuilder& b, Seeded& draw, std::string& text) {
  const Dim in = b.dim("in_channels", draw.choose({8, 16, 32, 64}));
  const std::int64_t kernel = draw.choose({3, 3, 5, 7});
  Attrs args{{"in_channels", Attr::of(in)}, {"out_channels", Attr::of(in)}, {"kernel_size", Attr::named("kernel_size", kernel)}, {"groups", Attr::of(in)}};
  if (kAxes == 2 && draw.chance(0.2)) args["kernel_size"] = std::vector<std::int64_t>{draw.choose({1, 3, 5}), draw.choose({3, 7})};
  else if (draw.chance(0.5)) args["padding"] = kernel / 2;
  if (draw.chance(0.3)) args["stride"] = 2;
  if (draw.chance(0.5)) args["bias"] = false;
  const int x = b.input("x", DType::kF32, image(b, draw, kAxes, in, 8));
  b.output(b.module("depthwise", conv_kind(kAxes, false), conv_op(kAxes, false), {x}, args));
  text = "A depthwise " + std::to_string(kAxes) + "D convolution";
}

void grouped(GraphBuilder& b, Seeded& draw, std::string& text) {
  const bool transposed = draw.chance(0.35);
  const std::int64_t groups = draw.choose({2, 4});
  const Dim in = b.dim("in_channels", groups * draw.choose({4, 8, 16})), out = b.dim("out_channels", groups * draw.choose({4, 8}));
  const Dim g = b.dim("groups", groups);
  Attrs args{{"in_channels", Attr::of(in)}, {"out_channels", Attr::of(out)}, {"kernel_size", Attr::named("kernel_size", std::int64_t{3})}, {"groups", Attr::of(g)}};
  if (draw.chance(0.5)) args["padding"] = 1;
  if (draw.chance(0.4)) args["stride"] = 2;
  const int x = b.input("x", DType::kF32, image(b, draw, 2, in, 8));
  b.output(b.module("conv", conv_kind(2, transposed), conv_op(2, transposed), {x}, args));
  text = std::string("A grouped 2D ") + (transposed ? "transposed convolution" : "convolution");
}

void pointwise(GraphBuilder& b, Seeded& draw, std::string& text) {
  const Dim in = b.dim("in_channels", draw.choose({16, 32, 64, 100})), out = b.dim("out_channels", draw.choose({16, 32, 64, 48}));
  Attrs args{{"in_channels", Attr::of(in)}, {"out_channels", Attr::of(out)}, {"kernel_size", 1}};
  if (draw.chance(0.5)) args["bias"] = false;
  int x = b.module("pointwise", "Conv2d", "conv2d", {b.input("x", draw_float(draw), image(b, draw, 2, in, 8))}, args);
  text = "A pointwise 2D convolution";
  if (draw.chance(0.3)) text += " followed by" + epilogue_chain(b, draw, x, {out, literal(1), literal(1)}, 1);
  b.output(x);
}

void separable(GraphBuilder& b, Seeded& draw, std::string& text) {
  const auto [in, out] = channels(b, draw, 2);
  Attrs depth{{"in_channels", Attr::of(in)}, {"out_channels", Attr::of(in)}, {"kernel_size", 3}, {"padding", 1}, {"groups", Attr::of(in)}};
  if (draw.chance(0.3)) depth["stride"] = 2;
  int x = b.module("depthwise", "Conv2d", "conv2d", {b.input("x", DType::kF32, image(b, draw, 2, in, 8))}, depth);
  if (draw.chance(0.4)) x = b.op("relu", {x});
  b.output(b.module("pointwise", "Conv2d", "conv2d", {x}, {{"in_channels", Attr::of(in)}, {"out_channels", Attr::of(out)}, {"kernel_size", 1}}));
  text = "A depthwise separable 2D convolution";
}

// A convolution and what fused kernels of KernelBench's second level have behind it.
template <int kAxes, bool kTransposed>
void chain(GraphBuilder& b, Seeded& draw, std::string& text) {
  const ConvForm form{kAxes, kTransposed, draw.chance(0.7)};
  const auto [in, out] = channels(b, draw, kAxes);
  int x = conv(b, draw, form, b.input("x", DType::kF32, image(b, draw, kAxes, in, 10)), in, out, kTransposed ? "conv_transpose" : "conv");
  std::vector<Dim> channel{out};
  channel.resize(static_cast<std::size_t>(kAxes) + 1, literal(1));
  text = "A " + words_of(form) + " followed by" + epilogue_chain(b, draw, x, channel, static_cast<int>(draw.between(1, 4)));
  b.output(x);
}

template <int kAxes, bool kTransposed>
void tail(GraphBuilder& b, Seeded& draw, std::string& text) {
  const ConvForm form{kAxes, kTransposed, true};
  const Dim in = b.dim("in_channels", draw.choose({3, 8, 16})), out = b.dim("out_channels", draw.choose({8, 16, 32}));
  const std::string axes = std::to_string(kAxes) + "d";
  int x = conv(b, draw, form, b.input("x", DType::kF32, image(b, draw, kAxes, in, 12)), in, out, kTransposed ? "conv_transpose" : "conv");
  std::vector<Dim> channel{out};
  channel.resize(static_cast<std::size_t>(kAxes) + 1, literal(1));
  text = "A " + words_of(form) + " followed by";
  const char* glue = "";
  if (draw.chance(0.5)) {
    text += epilogue_chain(b, draw, x, channel, static_cast<int>(draw.between(1, 2)));
    glue = ",";
  }
  switch (draw.below(9)) {
    case 0:
      x = b.op("max_pool" + axes, {x}, {{"kernel_size", 2}});
      text += std::string(glue) + " max pooling";
      break;
    case 1:
      x = b.op("avg_pool" + axes, {x}, {{"kernel_size", 2}});
      text += std::string(glue) + " average pooling";
      break;
    case 2:
      x = b.op("adaptive_avg_pool" + axes, {x}, {{"output_size", 1}});
      text += std::string(glue) + " global average pooling";
      break;
    case 3: {
      const Dim groups = b.dim("num_groups", draw.choose({2, 4, 8}));
      x = b.module("norm", "GroupNorm", "group_norm", {x}, {{"num_groups", Attr::of(groups)}, {"num_channels", Attr::of(out)}});
      text += std::string(glue) + " group normalisation";
      break;
    }
    case 4:
      x = b.module("norm", "InstanceNorm" + axes, "instance_norm", {x}, {{"num_features", Attr::of(out)}});
      text += std::string(glue) + " instance normalisation";
      break;
    case 5:
      x = b.op("softmax", {x}, {{"dim", 1}});
      text += std::string(glue) + " softmax over channels";
      break;
    case 6:
      x = b.op(draw.choose({"amin", "amax", "sum", "mean"}), {x}, {{"dim", 1}, {"keepdim", true}});
      text += std::string(glue) + " a reduction over channels";
      break;
    case 7:
      x = b.op("mean", {x}, {{"dim", kAxes == 1 ? Attr(2) : kAxes == 2 ? Attr(std::vector<std::int64_t>{2, 3}) : Attr(std::vector<std::int64_t>{2, 3, 4})}, {"keepdim", draw.chance(0.6)}});
      text += std::string(glue) + " the mean of each channel";
      b.output(x);
      return;
    default:
      x = b.op("logsumexp", {x}, {{"dim", 1}, {"keepdim", true}});
      text += std::string(glue) + " logsumexp over channels";
  }
  if (draw.chance(0.6)) {
    static const std::vector<const char*> kLast{"relu", "tanh", "sigmoid", "gelu", "hardswish", "mish"};
    const char* last = draw.choose(kLast);
    x = b.op(last, {x});
    text += std::string(", ") + last;
  }
  b.output(x);
}

template <int kAxes>
void pooling(GraphBuilder& b, Seeded& draw, std::string& text) {
  const Dim c = b.dim("channels", kAxes == 3 ? draw.choose({4, 8, 16}) : draw.choose({16, 32, 64}));
  // PyTorch has no 3D pooling of half types on the CPU, where the reference runs.
  const int x = b.input("x", kAxes == 3 ? DType::kF32 : draw_float(draw), image(b, draw, kAxes, c, 12));
  const bool max = draw.chance(0.5);
  const std::int64_t kernel = draw.choose({2, 3, 3, 4, 5});
  Attrs attrs{{"kernel_size", Attr::named("kernel_size", kernel)}};
  if (draw.chance(0.5)) attrs["stride"] = Attr::named("stride", draw.choose({1, 2, 3}));
  if (kernel > 2 && draw.chance(0.5)) attrs["padding"] = Attr::named("padding", std::int64_t{1});
  if (max && draw.chance(0.25)) attrs["dilation"] = Attr::named("dilation", std::int64_t{2});
  b.output(b.op(std::string(max ? "max" : "avg") + "_pool" + std::to_string(kAxes) + "d", {x}, attrs));
  text = std::string(max ? "Maximum" : "Average") + " pooling over " + std::to_string(kAxes) + (kAxes == 1 ? " axis" : " axes");
}

template <int kAxes>
void adaptive(GraphBuilder& b, Seeded& draw, std::string& text) {
  const Dim c = b.dim("channels", kAxes == 3 ? draw.choose({4, 8, 16}) : draw.choose({16, 32, 64}));
  const int x = b.input("x", DType::kF32, image(b, draw, kAxes, c, 12));
  const bool max = draw.chance(0.35);
  const std::int64_t size = draw.choose({1, 1, 2, 4, 5, 7});
  b.output(b.op(std::string("adaptive_") + (max ? "max" : "avg") + "_pool" + std::to_string(kAxes) + "d", {x}, {{"output_size", size}}));
  text = std::string("Adaptive ") + (max ? "maximum" : "average") + " pooling to " + std::to_string(size) + (kAxes > 1 ? " places an axis" : " places");
}

void pool_chain(GraphBuilder& b, Seeded& draw, std::string& text) {
  const Dim c = b.dim("channels", draw.choose({8, 16, 32}));
  int x = b.input("x", DType::kF32, image(b, draw, 2, c, 12));
  x = b.op(draw.choose({"max_pool2d", "avg_pool2d"}), {x}, {{"kernel_size", draw.choose({2, 3})}});
  text = "2D pooling followed by" + epilogue_chain(b, draw, x, {c, literal(1), literal(1)}, static_cast<int>(draw.between(1, 3)));
  b.output(x);
}

}  // namespace

const std::vector<Archetype>& conv_archetypes() {
  static const std::vector<Archetype> rows = {
      {"nn_layers", "conv", "conv.1d", plain<1, false>},
      {"nn_layers", "conv", "conv.2d", plain<2, false>},
      {"nn_layers", "conv", "conv.3d", plain<3, false>},
      {"nn_layers", "conv", "conv.functional", functional},
      {"nn_layers", "conv", "conv.depthwise_1d", depthwise<1>},
      {"nn_layers", "conv", "conv.depthwise_2d", depthwise<2>},
      {"nn_layers", "conv", "conv.grouped", grouped},
      {"nn_layers", "conv", "conv.pointwise", pointwise},
      {"nn_layers", "conv", "conv.separable", separable},
      {"nn_layers", "conv_transpose", "conv_transpose.1d", plain<1, true>},
      {"nn_layers", "conv_transpose", "conv_transpose.2d", plain<2, true>},
      {"nn_layers", "conv_transpose", "conv_transpose.3d", plain<3, true>},
      {"nn_layers", "fused_conv", "conv.chain_1d", chain<1, false>},
      {"nn_layers", "fused_conv", "conv.chain_2d", chain<2, false>},
      {"nn_layers", "fused_conv", "conv.chain_3d", chain<3, false>},
      {"nn_layers", "fused_conv", "conv_transpose.chain_2d", chain<2, true>},
      {"nn_layers", "fused_conv", "conv_transpose.chain_3d", chain<3, true>},
      {"nn_layers", "fused_conv", "conv.tail_2d", tail<2, false>},
      {"nn_layers", "fused_conv", "conv.tail_3d", tail<3, false>},
      {"nn_layers", "fused_conv", "conv_transpose.tail_2d", tail<2, true>},
      {"nn_layers", "fused_conv", "conv_transpose.tail_3d", tail<3, true>},
  };
  return rows;
}

const std::vector<Archetype>& pool_archetypes() {
  static const std::vector<Archetype> rows = {
      {"nn_layers", "pool", "pool.1d", pooling<1>},
      {"nn_layers", "pool", "pool.2d", pooling<2>},
      {"nn_layers", "pool", "pool.3d", pooling<3>},
      {"nn_layers", "pool", "pool.adaptive_1d", adaptive<1>},
      {"nn_layers", "pool", "pool.adaptive_2d", adaptive<2>},
      {"nn_layers", "pool", "pool.adaptive_3d", adaptive<3>},
      {"nn_layers", "pool", "pool.chain", pool_chain},
  };
  return rows;
}

}  // namespace musacoder::synth
