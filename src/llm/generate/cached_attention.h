// Attention of single tokens over their sequences' cached keys and values, on the CPU.
//
//   CachedAttention attention(cache, rows);       // rows[i]: whose token row i is, and where it stands
//   at::Tensor h = decoder.hidden(batch, attention, Rows::kIndependent);
//
// Writes the rows' keys and values into the cache first, so several rows of one sequence (a chunk of its
// prompt) may come together, each seeing those before it. A row's result does not depend on the others, to
// the last bit.
#pragma once

#include <vector>

#include "llm/generate/kv_cache.h"
#include "llm/model/decoder.h"

namespace musacoder::llm {

struct CachedRow {
  const PageTable* table = nullptr;  // long enough for `position`
  std::int64_t position = 0;
};

class CachedAttention : public Attention {
 public:
  CachedAttention(const KvCache& cache, std::vector<CachedRow> rows)
      : cache_(cache), rows_(std::move(rows)) {}
  at::Tensor attend(std::int64_t layer, const at::Tensor& q, const at::Tensor& k,
                    const at::Tensor& v) override;

 private:
  const KvCache& cache_;
  std::vector<CachedRow> rows_;
};

}  // namespace musacoder::llm
