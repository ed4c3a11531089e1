// Attention and recurrent layers.
#include "synth/graph/ops.h"

namespace musacoder::synth {
namespace {

using Types = Result<std::vector<TensorType>>;

// query (…, L, E), key (…, S, E), value (…, S, V)[, mask broadcastable to (…, L, S)]; attrs is_causal, scale.
Types attention(const std::vector<TensorType>& in, const Node& node) {
  const int rank = in[0].rank();
  const auto bad = [&] {
    return fail(Code::kInvalidArgument, "{} of {}, {} and {}", node.op, shape_text(in[0]), shape_text(in[1]), shape_text(in[2]));
  };
  if (rank < 3 || in[1].rank() != rank || in[2].rank() != rank) return bad();
  const std::size_t last = static_cast<std::size_t>(rank) - 1;
  for (std::size_t d = 0; d + 1 < last; ++d)
    if (in[1].dims[d].size != in[0].dims[d].size || in[2].dims[d].size != in[0].dims[d].size) return bad();
  if (in[0].dims[last].size != in[1].dims[last].size || in[1].dims[last - 1].size != in[2].dims[last - 1].size) return bad();
  if (in.size() > 3) {
    if (node.flag("is_causal")) return fail(Code::kInvalidArgument, "{}: a mask and is_causal", node.op);
    std::vector<Dim> scores(in[0].dims.begin(), in[0].dims.end() - 1);
    scores.push_back(in[1].dims[last - 1]);
    MC_ASSIGN_OR_RETURN(const std::vector<Dim> both, broadcast({{in[0].dtype, scores}, in[3]}));
    if (both.size() != scores.size() || (in[3].dtype != DType::kBool && in[3].dtype != in[0].dtype)) return bad();
  }
  std::vector<Dim> dims = in[0].dims;
  dims[last] = in[2].dims[last];
  return std::vector<TensorType>{{in[0].dtype, std::move(dims), true}};
}

// x (N, I), h (N, H), weights (G * H, I) and (G * H, H), biases (G * H,): one step of an RNN or a GRU.
template <std::int64_t kGates>
Types cell(const std::vector<TensorType>& in, const Node& node) {
  if (in[0].rank() != 2 || in[1].rank() != 2 || in[2].rank() != 2 || in[3].rank() != 2 || in[0].dims[0].size != in[1].dims[0].size ||
      in[2].dims[1].size != in[0].dims[1].size || in[3].dims[1].size != in[1].dims[1].size ||
      in[2].dims[0].size != kGates * in[1].dims[1].size || in[3].dims[0].size != in[2].dims[0].size)
    return fail(Code::kInvalidArgument, "{} of {} and {}", node.op, shape_text(in[0]), shape_text(in[1]));
  return std::vector<TensorType>{{in[0].dtype, in[1].dims, true}};
}

}  // namespace

const std::vector<OpInfo>& attention_ops() {
  static const std::vector<OpInfo> rows = {
      {"scaled_dot_product_attention", OpClass::kAttention, 3, 4, attention, "aten::scaled_dot_product_attention",
       {"", "F.scaled_dot_product_attention({0}, {1}, {2}[[, attn_mask={3}]][[, is_causal={is_causal}]][[, scale={scale}]])", "", "", ""}},
      // As members only: nn.RNNCell, nn.GRUCell.
      {"rnn_cell", OpClass::kRecurrent, 4, 6, cell<1>, "aten::rnn_tanh_cell", {"torch.rnn_tanh_cell({*})", "", "", "", ""}},
      {"gru_cell", OpClass::kRecurrent, 4, 6, cell<3>, "aten::gru_cell", {"torch.gru_cell({*})", "", "", "", ""}},
  };
  return rows;
}

}  // namespace musacoder::synth
