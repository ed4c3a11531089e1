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

Packed on_device(const Packed& batch, const at::Device& device) {
  return {batch.ids.to(device), batch.positions.to(device), batch.starts};
}

at::Tensor next_tokens(const Packed& batch) {
  std::vector<std::int64_t> ends;
  for (std::size_t i = 1; i < batch.starts.size(); ++i)
    if (batch.starts[i] > batch.starts[i - 1]) ends.push_back(batch.starts[i] - 1);
  const at::Tensor out = at::roll(batch.ids, -1);
  return out.index_fill(0, at::tensor(ends, at::kLong).to(out.device()), -1);
}

}  // namespace musacoder::llm
