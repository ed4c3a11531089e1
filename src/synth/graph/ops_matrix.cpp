// Matrix products.
#include "synth/graph/ops.h"

namespace musacoder::synth {
namespace {

using Types = Result<std::vector<TensorType>>;

Types mismatch(const std::vector<TensorType>& in, const Node& node) {
  return fail(Code::kInvalidArgument, "{} of {} and {}", node.op, shape_text(in[0]), shape_text(in[1]));
}

// (…, in), (out, in)[, (out,)]
Types linear(const std::vector<TensorType>& in, const Node& node) {
  if (in[0].dims.empty() || in[1].rank() != 2 || in[0].dims.back().size != in[1].dims[1].size) return mismatch(in, node);
  if (in.size() > 2 && in[2].numel() != in[1].dims[0].size) return mismatch(in, node);
  std::vector<Dim> dims = in[0].dims;
  dims.back() = in[1].dims[0];
  return std::vector<TensorType>{{in[0].dtype, std::move(dims), true}};
}

// (…, m, k), (…, k, n) with broadcast batches; vectors on either side.
Types matmul(const std::vector<TensorType>& in, const Node& node) {
  TensorType a = in[0], b = in[1];
  if (a.dims.empty() || b.dims.empty() || a.dtype != b.dtype) return mismatch(in, node);
  const bool row = a.rank() == 1, column = b.rank() == 1;
  if (row) a.dims.insert(a.dims.begin(), literal(1));
  if (column) b.dims.push_back(literal(1));
  if (a.dims.back().size != b.dims[b.dims.size() - 2].size) return mismatch(in, node);
  const TensorType batches[] = {{a.dtype, {a.dims.begin(), a.dims.end() - 2}}, {b.dtype, {b.dims.begin(), b.dims.end() - 2}}};
  MC_ASSIGN_OR_RETURN(std::vector<Dim> dims, broadcast({batches[0], batches[1]}));
  if (!row) dims.push_back(a.dims[a.dims.size() - 2]);
  if (!column) dims.push_back(b.dims.back());
  return std::vector<TensorType>{{a.dtype, std::move(dims), true}};
}

// (d,), (d, n): rows scaled by a diagonal.
Types diagonal(const std::vector<TensorType>& in, const Node& node) {
  if (in[0].rank() != 1 || in[1].rank() != 2 || in[0].dims[0].size != in[1].dims[0].size || in[0].dtype != in[1].dtype)
    return mismatch(in, node);
  return std::vector<TensorType>{{in[1].dtype, in[1].dims, true}};
}

// (m,), (n,)
Types outer(const std::vector<TensorType>& in, const Node& node) {
  if (in[0].rank() != 1 || in[1].rank() != 1 || in[0].dtype != in[1].dtype) return mismatch(in, node);
  return std::vector<TensorType>{{in[0].dtype, {in[0].dims[0], in[1].dims[0]}, true}};
}

// Ranks that the operator's name demands.
template <int kLeft, int kRight>
Types ranked(const std::vector<TensorType>& in, const Node& node) {
  if (in[0].rank() != kLeft || in[1].rank() != kRight) return mismatch(in, node);
  return matmul(in, node);
}

// bias, a (m, k), b (k, n); attrs alpha, beta.
template <int kRank>
Types addmm(const std::vector<TensorType>& in, const Node& node) {
  if (in[1].rank() != kRank || in[2].rank() != kRank) return mismatch(in, node);
  MC_ASSIGN_OR_RETURN(std::vector<TensorType> out, matmul({in[1], in[2]}, node));
  MC_ASSIGN_OR_RETURN(const std::vector<Dim> both, broadcast({out[0], in[0]}));
  if (both.size() != out[0].dims.size() || in[0].dtype != in[1].dtype) return mismatch(in, node);
  for (std::size_t d = 0; d < both.size(); ++d)
    if (both[d].size != out[0].dims[d].size) return mismatch(in, node);
  return out;
}

}  // namespace

const std::vector<OpInfo>& matrix_ops() {
  static const std::vector<OpInfo> rows = {
      {"linear", OpClass::kMatrix, 2, 3, linear, "aten::linear", {"", "F.linear({0}, {1}[[, {2}]])", "", "", ""}},
      {"matmul", OpClass::kMatrix, 2, 2, matmul, "aten::matmul", {"torch.matmul({0}, {1})", "", "{0}.matmul({1})", "{0} @ {1}", ""}},
      {"bmm", OpClass::kMatrix, 2, 2, ranked<3, 3>, "aten::bmm", {"torch.bmm({0}, {1})", "", "{0}.bmm({1})", "", ""}},
      {"mm", OpClass::kMatrix, 2, 2, ranked<2, 2>, "aten::mm", {"torch.mm({0}, {1})", "", "{0}.mm({1})", "", ""}},
      {"mv", OpClass::kMatrix, 2, 2, ranked<2, 1>, "aten::mv", {"torch.mv({0}, {1})", "", "{0}.mv({1})", "", ""}},
      {"dot", OpClass::kMatrix, 2, 2, ranked<1, 1>, "aten::dot", {"torch.dot({0}, {1})", "", "{0}.dot({1})", "", ""}},
      {"diagonal_mm", OpClass::kMatrix, 2, 2, diagonal, "aten::mm", {"torch.diag({0}) @ {1}", "", "torch.diag({0}).mm({1})", "", ""}},
      {"outer", OpClass::kMatrix, 2, 2, outer, "aten::outer", {"torch.outer({0}, {1})", "", "{0}.outer({1})", "", ""}},
      {"addmm", OpClass::kMatrix, 3, 3, addmm<2>, "aten::addmm", {"torch.addmm({0}, {1}, {2}[[, beta={beta}]][[, alpha={alpha}]])", "", "{0}.addmm({1}, {2}[[, beta={beta}]][[, alpha={alpha}]])", "", ""}},
      {"baddbmm", OpClass::kMatrix, 3, 3, addmm<3>, "aten::baddbmm", {"torch.baddbmm({0}, {1}, {2}[[, beta={beta}]][[, alpha={alpha}]])", "", "{0}.baddbmm({1}, {2}[[, beta={beta}]][[, alpha={alpha}]])", "", ""}},
  };
  return rows;
}

}  // namespace musacoder::synth
