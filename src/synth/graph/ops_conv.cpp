// Convolutions, transposed ones, and pooling over the last one, two or three axes of (N, C, …) or of a single (C, …) with pooling only.
#include <algorithm>

#include "synth/graph/ops.h"

namespace musacoder::synth {
namespace {

using Types = Result<std::vector<TensorType>>;

Result<std::vector<std::int64_t>> per_axis(const Node& node, const char* name, std::size_t axes, std::int64_t otherwise) {
  std::vector<std::int64_t> all = node.list(name, {otherwise});
  if (all.size() == 1) all.resize(axes, all[0]);
  if (all.size() != axes) return fail(Code::kInvalidArgument, "{}: {} has {} numbers for {} axes", node.op, name, all.size(), axes);
  return all;
}

// (N, C, …), (O, C / groups, …)[, (O,)]
template <std::size_t kAxes>
Types convolution(const std::vector<TensorType>& in, const Node& node) {
  const std::int64_t groups = node.integer("groups", 1);
  if (in[0].dims.size() != kAxes + 2 || in[1].dims.size() != kAxes + 2 || groups < 1 ||
      in[0].dims[1].size != in[1].dims[1].size * groups || in[1].dims[0].size % groups != 0 || in[0].dtype != in[1].dtype)
    return fail(Code::kInvalidArgument, "{} of {} with weights {} in {} groups", node.op, shape_text(in[0]), shape_text(in[1]), groups);
  if (in.size() > 2 && in[2].numel() != in[1].dims[0].size) return fail(Code::kInvalidArgument, "{} with bias {}", node.op, shape_text(in[2]));
  MC_ASSIGN_OR_RETURN(const std::vector<std::int64_t> stride, per_axis(node, "stride", kAxes, 1));
  MC_ASSIGN_OR_RETURN(const std::vector<std::int64_t> padding, per_axis(node, "padding", kAxes, 0));
  MC_ASSIGN_OR_RETURN(const std::vector<std::int64_t> dilation, per_axis(node, "dilation", kAxes, 1));
  std::vector<Dim> dims{in[0].dims[0], in[1].dims[0]};
  for (std::size_t k = 0; k < kAxes; ++k) {
    const std::int64_t span = in[0].dims[k + 2].size + 2 * padding[k] - dilation[k] * (in[1].dims[k + 2].size - 1) - 1;
    if (span < 0 || stride[k] < 1) return fail(Code::kInvalidArgument, "{} of {}: the kernel does not fit", node.op, shape_text(in[0]));
    dims.push_back(literal(span / stride[k] + 1));
  }
  return std::vector<TensorType>{{in[0].dtype, std::move(dims), true}};
}

// (N, C, …), (C, O / groups, …)[, (O,)]
template <std::size_t kAxes>
Types transposed(const std::vector<TensorType>& in, const Node& node) {
  const std::int64_t groups = node.integer("groups", 1);
  if (in[0].dims.size() != kAxes + 2 || in[1].dims.size() != kAxes + 2 || groups < 1 || in[0].dims[1].size != in[1].dims[0].size ||
      in[0].dims[1].size % groups != 0 || in[0].dtype != in[1].dtype)
    return fail(Code::kInvalidArgument, "{} of {} with weights {} in {} groups", node.op, shape_text(in[0]), shape_text(in[1]), groups);
  const Dim out = groups == 1 ? in[1].dims[1] : literal(in[1].dims[1].size * groups);
  if (in.size() > 2 && in[2].numel() != out.size) return fail(Code::kInvalidArgument, "{} with bias {}", node.op, shape_text(in[2]));
  MC_ASSIGN_OR_RETURN(const std::vector<std::int64_t> stride, per_axis(node, "stride", kAxes, 1));
  MC_ASSIGN_OR_RETURN(const std::vector<std::int64_t> padding, per_axis(node, "padding", kAxes, 0));
  MC_ASSIGN_OR_RETURN(const std::vector<std::int64_t> more, per_axis(node, "output_padding", kAxes, 0));
  MC_ASSIGN_OR_RETURN(const std::vector<std::int64_t> dilation, per_axis(node, "dilation", kAxes, 1));
  std::vector<Dim> dims{in[0].dims[0], out};
  for (std::size_t k = 0; k < kAxes; ++k) {
    if (more[k] >= std::max(stride[k], dilation[k])) return fail(Code::kInvalidArgument, "{}: output_padding of {} is too large", node.op, more[k]);
    dims.push_back(literal((in[0].dims[k + 2].size - 1) * stride[k] - 2 * padding[k] + dilation[k] * (in[1].dims[k + 2].size - 1) + more[k] + 1));
  }
  return std::vector<TensorType>{{in[0].dtype, std::move(dims), true}};
}

template <std::size_t kAxes>
Types pool(const std::vector<TensorType>& in, const Node& node) {
  if (in[0].dims.size() < kAxes + 1 || !is_float(in[0].dtype)) return fail(Code::kInvalidArgument, "{} of {}", node.op, shape_text(in[0]));
  if (!node.has("kernel_size")) return fail(Code::kInvalidArgument, "{} needs kernel_size", node.op);
  MC_ASSIGN_OR_RETURN(const std::vector<std::int64_t> size, per_axis(node, "kernel_size", kAxes, 1));
  std::vector<std::int64_t> stride = size;
  if (node.has("stride")) {
    MC_ASSIGN_OR_RETURN(stride, per_axis(node, "stride", kAxes, 1));
  }
  MC_ASSIGN_OR_RETURN(const std::vector<std::int64_t> padding, per_axis(node, "padding", kAxes, 0));
  MC_ASSIGN_OR_RETURN(const std::vector<std::int64_t> dilation, per_axis(node, "dilation", kAxes, 1));
  std::vector<Dim> dims = in[0].dims;
  for (std::size_t k = 0; k < kAxes; ++k) {
    Dim& own = dims[dims.size() - kAxes + k];
    const std::int64_t span = own.size + 2 * padding[k] - dilation[k] * (size[k] - 1) - 1;
    if (span < 0 || stride[k] < 1 || 2 * padding[k] > size[k]) return fail(Code::kInvalidArgument, "{} of {}: the window does not fit", node.op, shape_text(in[0]));
    own = literal(span / stride[k] + 1);
  }
  return std::vector<TensorType>{{in[0].dtype, std::move(dims), true}};
}

// attr "output_size": a number, or one for each axis.
template <std::size_t kAxes>
Types adaptive(const std::vector<TensorType>& in, const Node& node) {
  if (in[0].dims.size() < kAxes + 1 || !is_float(in[0].dtype)) return fail(Code::kInvalidArgument, "{} of {}", node.op, shape_text(in[0]));
  MC_ASSIGN_OR_RETURN(const std::vector<std::int64_t> size, per_axis(node, "output_size", kAxes, 1));
  std::vector<Dim> dims = in[0].dims;
  for (std::size_t k = 0; k < kAxes; ++k) dims[dims.size() - kAxes + k] = literal(size[k]);
  return std::vector<TensorType>{{in[0].dtype, std::move(dims), true}};
}

#define MC_CONV_ARGS "{0}, {1}[[, bias={2}]][[, stride={stride}]][[, padding={padding}]][[, dilation={dilation}]][[, groups={groups}]])"
#define MC_TCONV_ARGS "{0}, {1}[[, bias={2}]][[, stride={stride}]][[, padding={padding}]][[, output_padding={output_padding}]][[, groups={groups}]][[, dilation={dilation}]])"
#define MC_MAXPOOL_ARGS "{kernel_size}[[, stride={stride}]][[, padding={padding}]][[, dilation={dilation}]])"
#define MC_AVGPOOL_ARGS "{kernel_size}[[, stride={stride}]][[, padding={padding}]])"

constexpr OpClass kC = OpClass::kConv;
constexpr OpClass kP = OpClass::kPool;

}  // namespace

const std::vector<OpInfo>& conv_ops() {
  static const std::vector<OpInfo> rows = {
      {"conv1d", kC, 2, 3, convolution<1>, "aten::convolution", {"", "F.conv1d(" MC_CONV_ARGS, "", "", ""}},
      {"conv2d", kC, 2, 3, convolution<2>, "aten::convolution", {"", "F.conv2d(" MC_CONV_ARGS, "", "", ""}},
      {"conv3d", kC, 2, 3, convolution<3>, "aten::convolution", {"", "F.conv3d(" MC_CONV_ARGS, "", "", ""}},
      {"conv_transpose1d", kC, 2, 3, transposed<1>, "aten::convolution", {"", "F.conv_transpose1d(" MC_TCONV_ARGS, "", "", ""}},
      {"conv_transpose2d", kC, 2, 3, transposed<2>, "aten::convolution", {"", "F.conv_transpose2d(" MC_TCONV_ARGS, "", "", ""}},
      {"conv_transpose3d", kC, 2, 3, transposed<3>, "aten::convolution", {"", "F.conv_transpose3d(" MC_TCONV_ARGS, "", "", ""}},
  };
  return rows;
}

const std::vector<OpInfo>& pool_ops() {
  static const std::vector<OpInfo> rows = {
      {"max_pool1d", kP, 1, 1, pool<1>, "aten::max_pool1d", {"", "F.max_pool1d({0}, " MC_MAXPOOL_ARGS, "", "", "nn.MaxPool1d(" MC_MAXPOOL_ARGS}},
      {"max_pool2d", kP, 1, 1, pool<2>, "aten::max_pool2d_with_indices", {"", "F.max_pool2d({0}, " MC_MAXPOOL_ARGS, "", "", "nn.MaxPool2d(" MC_MAXPOOL_ARGS}},
      {"max_pool3d", kP, 1, 1, pool<3>, "aten::max_pool3d_with_indices", {"", "F.max_pool3d({0}, " MC_MAXPOOL_ARGS, "", "", "nn.MaxPool3d(" MC_MAXPOOL_ARGS}},
      {"avg_pool1d", kP, 1, 1, pool<1>, "aten::avg_pool1d", {"", "F.avg_pool1d({0}, " MC_AVGPOOL_ARGS, "", "", "nn.AvgPool1d(" MC_AVGPOOL_ARGS}},
      {"avg_pool2d", kP, 1, 1, pool<2>, "aten::avg_pool2d", {"", "F.avg_pool2d({0}, " MC_AVGPOOL_ARGS, "", "", "nn.AvgPool2d(" MC_AVGPOOL_ARGS}},
      {"avg_pool3d", kP, 1, 1, pool<3>, "aten::avg_pool3d", {"", "F.avg_pool3d({0}, " MC_AVGPOOL_ARGS, "", "", "nn.AvgPool3d(" MC_AVGPOOL_ARGS}},
      {"adaptive_avg_pool1d", kP, 1, 1, adaptive<1>, "aten::adaptive_avg_pool1d", {"", "F.adaptive_avg_pool1d({0}, {output_size})", "", "", "nn.AdaptiveAvgPool1d({output_size})"}},
      {"adaptive_avg_pool2d", kP, 1, 1, adaptive<2>, "aten::_adaptive_avg_pool2d", {"", "F.adaptive_avg_pool2d({0}, {output_size})", "", "", "nn.AdaptiveAvgPool2d({output_size})"}},
      {"adaptive_avg_pool3d", kP, 1, 1, adaptive<3>, "aten::_adaptive_avg_pool3d", {"", "F.adaptive_avg_pool3d({0}, {output_size})", "", "", "nn.AdaptiveAvgPool3d({output_size})"}},
      {"adaptive_max_pool1d", kP, 1, 1, adaptive<1>, "aten::adaptive_max_pool1d", {"", "F.adaptive_max_pool1d({0}, {output_size})", "", "", "nn.AdaptiveMaxPool1d({output_size})"}},
      {"adaptive_max_pool2d", kP, 1, 1, adaptive<2>, "aten::adaptive_max_pool2d", {"", "F.adaptive_max_pool2d({0}, {output_size})", "", "", "nn.AdaptiveMaxPool2d({output_size})"}},
      {"adaptive_max_pool3d", kP, 1, 1, adaptive<3>, "aten::adaptive_max_pool3d", {"", "F.adaptive_max_pool3d({0}, {output_size})", "", "", "nn.AdaptiveMaxPool3d({output_size})"}},
  };
  return rows;
}

}  // namespace musacoder::synth
