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

// x (L, N, I), or (N, L, I) where batch_first; the initial state, if given: (layers, N, H), of an LSTM two of them; then what each layer has:
// weights (G * H, I or H) and (G * H, H), and with bias two of (G * H,). Results: the sequence, the last hidden state (layers, N, H), and of an
// LSTM the last cell state. Attrs num_layers, bias, batch_first.
template <std::int64_t kGates>
Types recurrent(const std::vector<TensorType>& in, const Node& node) {
  constexpr std::size_t kStates = kGates == 4 ? 2 : 1;
  const auto bad = [&] { return fail(Code::kInvalidArgument, "{} of {} and {}", node.op, shape_text(in[0]), shape_text(in[1])); };
  const std::int64_t layers = node.integer("num_layers", 1);
  const std::size_t each = node.flag("bias", true) ? 4 : 2;
  if (layers < 1 || in[0].rank() != 3 || in.size() < 1 + each * static_cast<std::size_t>(layers)) return bad();
  const std::size_t first = in.size() - each * static_cast<std::size_t>(layers);
  if ((first != 1 && first != 1 + kStates) || in[first + 1].rank() != 2) return bad();
  const bool batch_first = node.flag("batch_first");
  const Dim hidden = in[first + 1].dims[1], batch = in[0].dims[batch_first ? 0 : 1];
  Dim width = in[0].dims[2];
  for (std::size_t at = first; at < in.size(); at += each) {
    const std::vector<std::int64_t> input_weight{kGates * hidden.size, width.size}, hidden_weight{kGates * hidden.size, hidden.size};
    if (in[at].sizes() != input_weight || in[at + 1].sizes() != hidden_weight) return bad();
    for (std::size_t bias = at + 2; bias < at + each; ++bias)
      if (in[bias].sizes() != std::vector<std::int64_t>{kGates * hidden.size}) return bad();
    width = hidden;
  }
  for (std::size_t state = 1; state < first; ++state)
    if (in[state].sizes() != std::vector<std::int64_t>{layers, batch.size, hidden.size} || in[state].dtype != in[0].dtype) return bad();
  std::vector<Dim> sequence = in[0].dims;
  sequence[2] = hidden;
  std::vector<TensorType> out{{in[0].dtype, sequence, true}};
  for (std::size_t state = 0; state < kStates; ++state) out.push_back({in[0].dtype, {literal(layers), batch, hidden}, true});
  return out;
}

// One layer whose input projections are there already: gates (N, L, G * H), or (L, N, G * H); weight (G * H, H); its bias (G * H,), if any; the
// initial state (N, H), if any, of an LSTM two. Results: the sequence, and of an LSTM the last cell state (N, H).
template <std::int64_t kGates>
Types recurrence(const std::vector<TensorType>& in, const Node& node) {
  const auto bad = [&] { return fail(Code::kInvalidArgument, "{} of {} and {}", node.op, shape_text(in[0]), shape_text(in[1])); };
  if (in[0].rank() != 3 || in[1].rank() != 2) return bad();
  const Dim hidden = in[1].dims[1], batch = in[0].dims[node.flag("batch_first") ? 0 : 1];
  if (in[0].dims[2].size != kGates * hidden.size || in[1].dims[0].size != kGates * hidden.size) return bad();
  std::size_t states = 0;
  for (std::size_t k = 2; k < in.size(); ++k) {
    const bool bias = k == 2 && in[k].rank() == 1;
    if (in[k].sizes() != (bias ? std::vector<std::int64_t>{kGates * hidden.size} : std::vector<std::int64_t>{batch.size, hidden.size})) return bad();
    states += bias ? 0 : 1;
  }
  if (states != 0 && states != (kGates == 4 ? 2 : 1)) return bad();
  std::vector<Dim> sequence = in[0].dims;
  sequence[2] = hidden;
  std::vector<TensorType> out{{in[0].dtype, sequence, true}};
  if (kGates == 4) out.push_back({in[0].dtype, {batch, hidden}, true});
  return out;
}

// query (N, L, E), key and value (N, S, E) where batch_first, else (L, N, E) and (S, N, E); weights (3 * E, E) and its bias (3 * E,), (E, E) and
// its bias (E,). Attrs num_heads, bias, batch_first.
Types multi_head(const std::vector<TensorType>& in, const Node& node) {
  const auto bad = [&] {
    return fail(Code::kInvalidArgument, "{} of {}, {} and {}, {} heads", node.op, shape_text(in[0]), shape_text(in[1]), shape_text(in[2]), node.integer("num_heads", 1));
  };
  const bool bias = node.flag("bias", true);
  if (in.size() != (bias ? 7u : 5u) || in[0].rank() != 3 || in[1].rank() != 3 || in[2].sizes() != in[1].sizes()) return bad();
  const std::size_t batch = node.flag("batch_first") ? 0 : 1;
  const std::int64_t width = in[0].dims[2].size, heads = node.integer("num_heads", 1);
  if (in[1].dims[2].size != width || in[1].dims[batch].size != in[0].dims[batch].size || heads < 1 || width % heads != 0) return bad();
  const std::vector<std::vector<std::int64_t>> wanted = bias ? std::vector<std::vector<std::int64_t>>{{3 * width, width}, {3 * width}, {width, width}, {width}}
                                                             : std::vector<std::vector<std::int64_t>>{{3 * width, width}, {width, width}};
  for (std::size_t k = 0; k < wanted.size(); ++k)
    if (in[3 + k].sizes() != wanted[k]) return bad();
  return std::vector<TensorType>{{in[0].dtype, in[0].dims, true}};
}

}  // namespace

const std::vector<OpInfo>& attention_ops() {
  static const std::vector<OpInfo> rows = {
      {"scaled_dot_product_attention", OpClass::kAttention, 3, 4, attention, "aten::scaled_dot_product_attention",
       {"", "F.scaled_dot_product_attention({0}, {1}, {2}[[, attn_mask={3}]][[, is_causal={is_causal}]][[, scale={scale}]])", "", "", ""}},
      // As members only: nn.RNNCell, nn.GRUCell.
      {"rnn_cell", OpClass::kRecurrent, 4, 6, cell<1>, "aten::rnn_tanh_cell", {"torch.rnn_tanh_cell({*})", "", "", "", ""}},
      {"gru_cell", OpClass::kRecurrent, 4, 6, cell<3>, "aten::gru_cell", {"torch.gru_cell({*})", "", "", "", ""}},
      // As members only: nn.GRU, nn.LSTM, nn.MultiheadAttention.
      {"gru", OpClass::kRecurrent, 3, 34, recurrent<3>, "aten::gru", {}},
      {"lstm", OpClass::kRecurrent, 3, 35, recurrent<4>, "aten::lstm", {}},
      {"multi_head_attention", OpClass::kAttention, 5, 7, multi_head, "aten::_native_multi_head_attention", {}},
      // What the teacher makes of them; tasks have none.
      {"gru_layer", OpClass::kRecurrent, 2, 4, recurrence<3>, "aten::gru", {}},
      {"lstm_layer", OpClass::kRecurrent, 2, 5, recurrence<4>, "aten::lstm", {}},
  };
  return rows;
}

}  // namespace musacoder::synth
