// Losses: two or three tensors to one number, attr "reduction" mean (default) or sum.
#include "synth/graph/ops.h"

namespace musacoder::synth {
namespace {

using Types = Result<std::vector<TensorType>>;

Types number(const std::vector<TensorType>& in, const Node& node) {
  if (!is_float(in[0].dtype)) return fail(Code::kInvalidArgument, "{} needs a floating tensor, not {}", node.op, shape_text(in[0]));
  return std::vector<TensorType>{{in[0].dtype, {}, true}};
}

Types elementwise(const std::vector<TensorType>& in, const Node& node) {
  if (in[0].sizes() != in[1].sizes()) return fail(Code::kInvalidArgument, "{} of {} and {}", node.op, shape_text(in[0]), shape_text(in[1]));
  return number(in, node);
}

Types labelled(const std::vector<TensorType>& in, const Node& node) {
  if (in[0].rank() != 2 || in[1].rank() != 1 || in[1].dtype != DType::kI64 || in[1].dims[0].size != in[0].dims[0].size)
    return fail(Code::kInvalidArgument, "{} of {} with labels {}", node.op, shape_text(in[0]), shape_text(in[1]));
  return number(in, node);
}

Types rows(const std::vector<TensorType>& in, const Node& node) {
  for (std::size_t k = 1; k < in.size(); ++k)
    if (in[k].dims.empty() || in[k].dims[0].size != in[0].dims[0].size)
      return fail(Code::kInvalidArgument, "{} of {} and {}", node.op, shape_text(in[0]), shape_text(in[k]));
  return number(in, node);
}

Types similarity(const std::vector<TensorType>& in, const Node& node) {
  MC_RETURN_IF_ERROR(elementwise(in, node));
  MC_ASSIGN_OR_RETURN(const int at, axis(node.integer("dim", 1), in[0].rank()));
  TensorType out{in[0].dtype, in[0].dims, true};
  out.dims.erase(out.dims.begin() + at);
  return std::vector<TensorType>{out};
}

constexpr OpClass kL = OpClass::kLoss;

}  // namespace

const std::vector<OpInfo>& loss_ops() {
  static const std::vector<OpInfo> table = {
      {"mse_loss", kL, 2, 2, elementwise, "aten::mse_loss", {"", "F.mse_loss({0}, {1}[[, reduction={reduction}]])", "", "", "nn.MSELoss([[reduction={reduction}]])"}, true},
      {"l1_loss", kL, 2, 2, elementwise, "aten::l1_loss", {"", "F.l1_loss({0}, {1}[[, reduction={reduction}]])", "", "", "nn.L1Loss([[reduction={reduction}]])"}, true},
      {"huber_loss", kL, 2, 2, elementwise, "aten::huber_loss", {"", "F.huber_loss({0}, {1}[[, reduction={reduction}]][[, delta={delta}]])", "", "", "nn.HuberLoss([[reduction={reduction}]][[, delta={delta}]])"}},
      {"smooth_l1_loss", kL, 2, 2, elementwise, "aten::smooth_l1_loss", {"", "F.smooth_l1_loss({0}, {1}[[, reduction={reduction}]][[, beta={beta}]])", "", "", "nn.SmoothL1Loss([[reduction={reduction}]][[, beta={beta}]])"}},
      {"kl_div", kL, 2, 2, elementwise, "aten::kl_div", {"", "F.kl_div({0}, {1}[[, reduction={reduction}]])", "", "", "nn.KLDivLoss([[reduction={reduction}]])"}},
      {"bce_with_logits", kL, 2, 2, elementwise, "aten::binary_cross_entropy_with_logits", {"", "F.binary_cross_entropy_with_logits({0}, {1}[[, reduction={reduction}]])", "", "", "nn.BCEWithLogitsLoss([[reduction={reduction}]])"}},
      {"soft_margin_loss", kL, 2, 2, elementwise, "aten::soft_margin_loss", {"", "F.soft_margin_loss({0}, {1}[[, reduction={reduction}]])", "", "", "nn.SoftMarginLoss([[reduction={reduction}]])"}},
      {"hinge_embedding_loss", kL, 2, 2, elementwise, "aten::hinge_embedding_loss", {"", "F.hinge_embedding_loss({0}, {1}[[, margin={margin}]][[, reduction={reduction}]])", "", "", "nn.HingeEmbeddingLoss([[margin={margin}]][[, reduction={reduction}]])"}},
      {"cross_entropy", kL, 2, 2, labelled, "aten::nll_loss_forward", {"", "F.cross_entropy({0}, {1}[[, reduction={reduction}]][[, label_smoothing={label_smoothing}]])", "", "", "nn.CrossEntropyLoss([[reduction={reduction}]][[, label_smoothing={label_smoothing}]])"}},
      {"nll_loss", kL, 2, 2, labelled, "aten::nll_loss_forward", {"", "F.nll_loss({0}, {1}[[, reduction={reduction}]])", "", "", "nn.NLLLoss([[reduction={reduction}]])"}},
      {"triplet_margin_loss", kL, 3, 3, rows, "aten::triplet_margin_loss", {"", "F.triplet_margin_loss({0}, {1}, {2}[[, margin={margin}]])", "", "", "nn.TripletMarginLoss([[margin={margin}]])"}},
      {"cosine_embedding_loss", kL, 3, 3, rows, "aten::cosine_embedding_loss", {"", "F.cosine_embedding_loss({0}, {1}, {2}[[, margin={margin}]])", "", "", "nn.CosineEmbeddingLoss([[margin={margin}]])"}},
      {"cosine_similarity", kL, 2, 2, similarity, "aten::cosine_similarity", {"torch.cosine_similarity({0}, {1}[[, dim={dim}]][[, eps={eps}]])", "F.cosine_similarity({0}, {1}[[, dim={dim}]][[, eps={eps}]])", "", "", "nn.CosineSimilarity([[dim={dim}]][[, eps={eps}]])"}, true},
  };
  return table;
}

}  // namespace musacoder::synth
