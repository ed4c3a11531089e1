#include "synth/graph/ops.h"

#include <algorithm>
#include <unordered_map>

namespace musacoder::synth {

Result<std::vector<Dim>> broadcast(const std::vector<TensorType>& in) {
  std::size_t rank = 0;
  for (const TensorType& t : in) rank = std::max(rank, t.dims.size());
  std::vector<Dim> dims(rank);
  for (const TensorType& t : in) {
    const std::size_t shift = rank - t.dims.size();
    for (std::size_t d = 0; d < t.dims.size(); ++d) {
      Dim& out = dims[shift + d];
      const Dim& own = t.dims[d];
      if (own.size == 1 || (own.size == out.size && !out.name.empty())) continue;
      if (out.size != 1 && out.size != own.size) {
        std::string shapes;
        for (const TensorType& each : in) shapes += " " + shape_text(each);
        return fail(Code::kInvalidArgument, "shapes do not broadcast:{}", shapes);
      }
      out = own;
    }
  }
  return dims;
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  const auto level = [](DType t) { return is_float(t) ? 2 : t == DType::kBool ? 0 : 1; };
  if (level(a) != level(b)) return level(a) > level(b) ? a : b;
  if (level(a) == 2) {
    if (a == DType::kF64 || b == DType::kF64) return DType::kF64;
    return DType::kF32;  // float32 with a half type, and float16 with bfloat16
  }
  if ((a == DType::kU8 && b == DType::kI8) || (a == DType::kI8 && b == DType::kU8)) return DType::kI16;
  return dtype_bytes(a) >= dtype_bytes(b) ? a : b;
}

Result<int> axis(std::int64_t dim, int rank) {
  if (dim < -rank || dim >= rank) return fail(Code::kInvalidArgument, "axis {} of a tensor with {} axes", dim, rank);
  return static_cast<int>(dim < 0 ? dim + rank : dim);
}

const std::vector<const OpInfo*>& all_ops() {
  static const std::vector<const OpInfo*> all = [] {
    std::vector<const OpInfo*> list;
    for (const auto* table : {&elementwise_ops(), &reduction_ops(), &layout_ops(), &norm_ops(), &loss_ops(), &matrix_ops(),
                              &conv_ops(), &pool_ops(), &attention_ops()})
      for (const OpInfo& info : *table) list.push_back(&info);
    return list;
  }();
  return all;
}

const OpInfo* find_op(std::string_view name) {
  static const std::unordered_map<std::string_view, const OpInfo*> index = [] {
    std::unordered_map<std::string_view, const OpInfo*> map;
    for (const OpInfo* info : all_ops()) map.emplace(info->name, info);
    return map;
  }();
  const auto it = index.find(name);
  return it == index.end() ? nullptr : it->second;
}

}  // namespace musacoder::synth
