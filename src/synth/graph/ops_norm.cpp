// Normalisations and soft maxima.
#include "synth/graph/ops.h"

namespace musacoder::synth {
namespace {

using Types = Result<std::vector<TensorType>>;

Types floating(const std::vector<TensorType>& in, const Node& node) {
  if (!is_float(in[0].dtype)) return fail(Code::kInvalidArgument, "{} needs a floating tensor, not {}", node.op, shape_text(in[0]));
  return std::vector<TensorType>{{in[0].dtype, in[0].dims, true}};
}

Types along(const std::vector<TensorType>& in, const Node& node) {
  MC_RETURN_IF_ERROR(axis(node.integer("dim", -1), in[0].rank()));
  return floating(in, node);
}

// normalized_shape is the tail of the input's shape.
Types over_tail(const std::vector<TensorType>& in, const Node& node) {
  const std::vector<std::int64_t> tail = node.list("normalized_shape");
  const std::size_t rank = in[0].dims.size();
  if (tail.empty() || tail.size() > rank) return fail(Code::kInvalidArgument, "{} needs normalized_shape", node.op);
  for (std::size_t d = 0; d < tail.size(); ++d)
    if (in[0].dims[rank - tail.size() + d].size != tail[d])
      return fail(Code::kInvalidArgument, "{} of {}: normalized_shape is not its tail", node.op, shape_text(in[0]));
  return floating(in, node);
}

Types over_channels(const std::vector<TensorType>& in, const Node& node) {
  if (in[0].rank() < 2) return fail(Code::kInvalidArgument, "{} of {}", node.op, shape_text(in[0]));
  const std::int64_t channels = in[0].dims[1].size;
  for (std::size_t k = 1; k < in.size(); ++k)
    if (in[k].numel() != channels) return fail(Code::kInvalidArgument, "{} of {} with {}", node.op, shape_text(in[0]), shape_text(in[k]));
  if (const std::int64_t groups = node.integer("num_groups", 1); groups < 1 || channels % groups != 0)
    return fail(Code::kInvalidArgument, "{} channels in {} groups", channels, groups);
  return floating(in, node);
}

}  // namespace

const std::vector<OpInfo>& norm_ops() {
  static const std::vector<OpInfo> rows = {
      {"softmax", OpClass::kRow, 1, 1, along, "aten::_softmax", {"torch.softmax({0}, dim={dim})", "F.softmax({0}, dim={dim})", "{0}.softmax(dim={dim})", "", "nn.Softmax(dim={dim})"}},
      {"log_softmax", OpClass::kRow, 1, 1, along, "aten::_log_softmax", {"torch.log_softmax({0}, dim={dim})", "F.log_softmax({0}, dim={dim})", "{0}.log_softmax(dim={dim})", "", "nn.LogSoftmax(dim={dim})"}},
      {"softmin", OpClass::kRow, 1, 1, along, "aten::_softmax", {"", "F.softmin({0}, dim={dim})", "", "", "nn.Softmin(dim={dim})"}},
      {"normalize", OpClass::kRow, 1, 1, along, "aten::linalg_vector_norm", {"", "F.normalize({0}[[, p={p}]], dim={dim}[[, eps={eps}]])", "", "", ""}},
      {"layer_norm", OpClass::kRow, 1, 3, over_tail, "aten::native_layer_norm", {"", "F.layer_norm({0}, {normalized_shape:tuple}[[, weight={1}]][[, bias={2}]][[, eps={eps}]])", "", "", ""}},
      {"rms_norm", OpClass::kRow, 1, 2, over_tail, "aten::rms_norm", {"", "F.rms_norm({0}, {normalized_shape:tuple}[[, weight={1}]][[, eps={eps}]])", "", "", ""}},
      {"group_norm", OpClass::kNorm, 1, 3, over_channels, "aten::native_group_norm", {"", "F.group_norm({0}, {num_groups}[[, weight={1}]][[, bias={2}]][[, eps={eps}]])", "", "", ""}},
      {"instance_norm", OpClass::kNorm, 1, 3, over_channels, "aten::native_batch_norm", {"", "F.instance_norm({0}[[, weight={1}]][[, bias={2}]][[, eps={eps}]])", "", "", ""}},
      // x, weight, bias, running_mean, running_var; attr training: batch statistics (and the running ones are updated).
      {"batch_norm", OpClass::kNorm, 1, 5, over_channels, "aten::native_batch_norm", {"", "F.batch_norm({0}, {3}, {4}, weight={1}, bias={2}, training={training}[[, eps={eps}]])", "", "", ""}},
  };
  return rows;
}

}  // namespace musacoder::synth
