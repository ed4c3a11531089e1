#include "llm/generate/kv_cache.h"

namespace musacoder::llm {

KvCache::KvCache(const ModelConfig& config, at::ScalarType type, std::int64_t tokens,
                 const at::Device& device)
    : type_(type), heads_(config.kv_heads), dim_(config.head_dim) {
  const std::int64_t count = pages_for(tokens);
  std::int64_t next = 0;
  for (std::int64_t i = 0; i < config.layers; ++i)
    places_.push_back(config.kind(i) == LayerKind::kAttention ? next++ : -1);
  store_ = at::empty({2 * next, count, heads_, kPage, dim_}, at::TensorOptions(type).device(device));
  uses_.assign(static_cast<std::size_t>(count), 0);
  held_.assign(static_cast<std::size_t>(count), false);
  for (std::int64_t i = count; i-- > 0;) free_.push_back(static_cast<std::int32_t>(i));
}

void KvCache::change(std::int32_t page, std::int32_t uses, bool held) {
  const auto at = static_cast<std::size_t>(page);
  idle_ -= idle(page);
  uses_[at] = uses;
  held_[at] = held;
  idle_ += idle(page);
  if (uses == 0) free_.push_back(page);
}

std::int32_t KvCache::take() {
  if (free_.empty() && idle_ > 0 && reclaim_) reclaim_();
  TORCH_INTERNAL_ASSERT(!free_.empty(), "the key-value cache has no free page, though room was reserved");
  const std::int32_t page = free_.back();
  free_.pop_back();
  change(page, 1, false);
  return page;
}

void KvCache::drop(std::int32_t page) {
  const auto at = static_cast<std::size_t>(page);
  change(page, uses_[at] - 1, held_[at]);
}

void KvCache::hold(std::int32_t page) { change(page, uses_[static_cast<std::size_t>(page)] + 1, true); }

void KvCache::let_go(std::int32_t page) { change(page, uses_[static_cast<std::size_t>(page)] - 1, false); }

PageTable KvCache::begin_with(std::vector<std::int32_t> pages) {
  PageTable out{std::move(pages), 0};
  out.length = static_cast<std::int64_t>(out.pages.size()) * kPage;
  return fork(out);
}

void KvCache::replace(PageTable& table, std::size_t index, std::int32_t page) {
  const auto at = static_cast<std::size_t>(page);
  change(page, uses_[at] + 1, held_[at]);
  drop(std::exchange(table.pages[index], page));
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
  for (const std::int32_t page : table.pages) {
    const auto at = static_cast<std::size_t>(page);
    change(page, uses_[at] + 1, held_[at]);
  }
  return table;
}

void KvCache::release(PageTable& table) {
  for (const std::int32_t page : table.pages) drop(page);
  table = {};
}

}  // namespace musacoder::llm
