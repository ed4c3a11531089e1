// Attention of single tokens over their sequences' cached keys and values, and DeltaNet layers over their
// sequences' states, on the CPU.
//
//   CachedAttention attention(cache, states, rows);       // rows[i]: whose token row i is, and where it
//   stands at::Tensor h = decoder.hidden(batch, attention, Rows::kIndependent);
//
// Writes the rows' keys and values into the cache first, so several rows of one sequence (a chunk of its
// prompt) may come together, each seeing those before it; they must stand one behind the other. A row's
// result does not depend on the others, to the last bit.
#pragma once

#include <vector>

#include "llm/generate/delta_states.h"
#include "llm/generate/kv_cache.h"
#include "llm/model/decoder.h"

namespace musacoder::llm {

struct CachedRow {
  const PageTable* table = nullptr;  // long enough for `position`
  std::int64_t position = 0;
  std::int32_t state = 0;  // the sequence's slot in `states`
};

class CachedAttention : public Attention {
 public:
  CachedAttention(const KvCache& cache, const DeltaStates& states, std::vector<CachedRow> rows)
      : cache_(cache), states_(states), rows_(std::move(rows)) {}
  at::Tensor attend(std::int64_t layer, const at::Tensor& q, const at::Tensor& k,
                    const at::Tensor& v) override;
  at::Tensor delta(std::int64_t layer, const DeltaInput& input) override;

 private:
  const KvCache& cache_;
  const DeltaStates& states_;
  std::vector<CachedRow> rows_;
};

}  // namespace musacoder::llm
