// Sequences one behind the other without padding, and where each begins.
//
//   Packed batch = pack({{1, 2, 3}, {4, 5}});
//   batch.starts;                 // 0, 3, 5
//   next_tokens(batch);           // 2, 3, -1, 5, -1
#pragma once

#include <cstdint>
#include <vector>

#include "llm/torch.h"

namespace musacoder::llm {

struct Packed {
  at::Tensor ids;                    // [tokens] int64
  at::Tensor positions;              // [tokens] int64, of each token in its sequence
  std::vector<std::int64_t> starts;  // sequence i is rows starts[i] .. starts[i + 1]
};
Packed pack(const std::vector<std::vector<std::int64_t>>& sequences);
// The same batch with its tensors on the device; the batch itself when they are there.
Packed on_device(const Packed& batch, const at::Device& device);
// [tokens] int64: each row's next token of its sequence; -1 for the last one.
at::Tensor next_tokens(const Packed& batch);

}  // namespace musacoder::llm
