#include "llm/generate/kv_cache.h"

namespace musacoder::llm {

KvCache::KvCache(const ModelConfig& config, at::ScalarType type, std::int64_t tokens,
                 const at::Device& device)
    : type_(type), heads_(config.kv_heads), dim_(config.head_dim) {
  const std::int64_t count = pages_for(tokens);
  store_ = at::empty({2 * config.layers, count, heads_, kPage, dim_}, at::TensorOptions(type).device(device));
  uses_.assign(static_cast<std::size_t>(count), 0);
  for (std::int64_t i = count; i-- > 0;) free_.push_back(static_cast<std::int32_t>(i));
}

std::int32_t KvCache::take() {
  TORCH_INTERNAL_ASSERT(!free_.empty(), "the key-value cache has no free page, though room was reserved");
  const std::int32_t page = free_.back();
  free_.pop_back();
  uses_[static_cast<std::size_t>(page)] = 1;
  return page;
}

void KvCache::drop(std::int32_t page) {
  if (--uses_[static_cast<std::size_t>(page)] == 0) free_.push_back(page);
}

void KvCache::extend(PageTable& table, std::int64_t length) {
  if (length <= table.length) return;
  if (table.length % kPage != 0) {
    std::int32_t& last = table.pages.back();
    if (uses_[static_cast<std::size_t>(last)] > 1) {
      const std::int32_t own = take();
      store_.select(1, own).copy_(store_.select(1, last));
      drop(last);
      last = own;
    }
  }
  while (static_cast<std::int64_t>(table.pages.size()) < pages_for(length)) table.pages.push_back(take());
  table.length = length;
}

PageTable KvCache::fork(const PageTable& table) {
  for (const std::int32_t page : table.pages) ++uses_[static_cast<std::size_t>(page)];
  return table;
}

void KvCache::release(PageTable& table) {
  for (const std::int32_t page : table.pages) drop(page);
  table = {};
}

}  // namespace musacoder::llm
