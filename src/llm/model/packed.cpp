#include "llm/model/packed.h"

namespace musacoder::llm {

Packed pack(const std::vector<std::vector<std::int64_t>>& sequences) {
  std::vector<std::int64_t> ids, positions;
  Packed out;
  out.starts = {0};
  for (const auto& one : sequences) {
    for (std::size_t i = 0; i < one.size(); ++i) {
      ids.push_back(one[i]);
      positions.push_back(static_cast<std::int64_t>(i));
    }
    out.starts.push_back(static_cast<std::int64_t>(ids.size()));
  }
  out.ids = at::tensor(ids, at::kLong);
  out.positions = at::tensor(positions, at::kLong);
  return out;
}

at::Tensor next_tokens(const Packed& batch) {
  at::Tensor out = at::roll(batch.ids, -1);
  for (std::size_t i = 1; i < batch.starts.size(); ++i)
    if (batch.starts[i] > batch.starts[i - 1]) out[batch.starts[i] - 1] = -1;
  return out;
}

}  // namespace musacoder::llm
