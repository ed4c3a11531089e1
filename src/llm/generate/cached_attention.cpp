#include "llm/generate/cached_attention.h"

#include <cmath>
#include <cstring>

#include "llm/kernels/cpu_kernels.h"
#include "llm/kernels/delta_rows.h"

namespace musacoder::llm {

at::Tensor CachedAttention::attend(std::int64_t layer, const at::Tensor& q, const at::Tensor& k,
                                   const at::Tensor& v) {
  const std::int64_t rows = q.size(0), heads = q.size(1), kv_heads = k.size(1), dim = q.size(2),
                     group = heads / kv_heads;
  const at::Tensor keys = k.to(cache_.type()).contiguous(), values = v.to(cache_.type()).contiguous();
  const at::Tensor asked = (q.to(at::kFloat) * (1 / std::sqrt(static_cast<double>(dim)))).contiguous();
  at::Tensor out = at::empty({rows, heads, dim}, asked.options());
  const std::size_t bytes = static_cast<std::size_t>(dim) * keys.element_size();
  const auto place = [&](void* page, std::int64_t position) {
    return static_cast<char*>(page) + static_cast<std::size_t>(position % kPage) * bytes;
  };
  for (std::int64_t r = 0; r < rows; ++r) {
    const CachedRow& row = rows_[static_cast<std::size_t>(r)];
    const std::int32_t page = row.table->pages[static_cast<std::size_t>(row.position / kPage)];
    for (std::int64_t h = 0; h < kv_heads; ++h) {
      const std::size_t from = static_cast<std::size_t>(r * kv_heads + h) * bytes;
      std::memcpy(place(cache_.keys(layer, page, h), row.position),
                  static_cast<const char*>(keys.const_data_ptr()) + from, bytes);
      std::memcpy(place(cache_.values(layer, page, h), row.position),
                  static_cast<const char*>(values.const_data_ptr()) + from, bytes);
    }
  }
  const auto run = cache_.type() == at::kBFloat16 ? cpu_kernels().attend_bf16 : cpu_kernels().attend_f32;
  const float* from = asked.const_data_ptr<float>();
  float* to = out.mutable_data_ptr<float>();
  std::int64_t work = 0;
  for (const CachedRow& row : rows_) work += row.position + 1;
  const std::int64_t grain =
      std::max<std::int64_t>(1, 32768 * rows * kv_heads / std::max<std::int64_t>(1, work * heads * dim));
  at::parallel_for(0, rows * kv_heads, grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<const void*> k_pages, v_pages;
    std::vector<float> scores;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t h = i % kv_heads,
                         length = rows_[static_cast<std::size_t>(i / kv_heads)].position + 1;
      k_pages.clear();
      v_pages.clear();
      for (std::int64_t p = 0; p < KvCache::pages_for(length); ++p) {
        const std::int32_t page =
            rows_[static_cast<std::size_t>(i / kv_heads)].table->pages[static_cast<std::size_t>(p)];
        k_pages.push_back(cache_.keys(layer, page, h));
        v_pages.push_back(cache_.values(layer, page, h));
      }
      scores.resize(static_cast<std::size_t>(group * length));
      run({from + i * group * dim, k_pages.data(), v_pages.data(), length, kPage, dim, group, scores.data(),
           to + i * group * dim});
    }
  });
  return out.to(q.scalar_type());
}

at::Tensor CachedAttention::delta(std::int64_t layer, const DeltaInput& input) {
  std::vector<DeltaSpan> spans;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const std::int32_t slot = rows_[i].state;
    if (i == 0 || slot != rows_[i - 1].state)
      spans.push_back(
          {static_cast<std::int64_t>(i), 0, states_.window(slot, layer), states_.state(slot, layer)});
    ++spans.back().count;
  }
  return delta_rows(input.sizes, input.mixed, input.taps, input.decay, input.beta, spans);
}

}  // namespace musacoder::llm
