// Matrix products. Convolutions, pooling and attention are in the tables that follow the same pattern.
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

}  // namespace

const std::vector<OpInfo>& matrix_ops() {
  static const std::vector<OpInfo> rows = {
      {"linear", OpClass::kMatrix, 2, 3, linear, "aten::linear", {"", "F.linear({0}, {1}[[, {2}]])", "", "", ""}},
      {"matmul", OpClass::kMatrix, 2, 2, matmul, "aten::matmul", {"torch.matmul({0}, {1})", "", "{0}.matmul({1})", "{0} @ {1}", ""}},
      {"bmm", OpClass::kMatrix, 2, 2, matmul, "aten::bmm", {"torch.bmm({0}, {1})", "", "{0}.bmm({1})", "", ""}},
      {"mm", OpClass::kMatrix, 2, 2, matmul, "aten::mm", {"torch.mm({0}, {1})", "", "{0}.mm({1})", "", ""}},
  };
  return rows;
}

}  // namespace musacoder::synth
