// Keys and values of running sequences, in pages that sequences may share.
//
//   KvCache cache(config, at::kBFloat16, /*tokens=*/4096);
//   PageTable table;
//   cache.extend(table, 17);                  // room for 17 tokens: two pages of 16
//   PageTable twin = cache.fork(table);       // a second sample of the same prompt: no copy yet
//   cache.extend(twin, 18);                   // its last page is shared, so it gets its own copy
//   cache.release(twin);
//
// A page holds kPage tokens of every attention layer and kv head. Room is the caller's business: pages_for()
// says how many pages a sequence will need, and taking one when none is free or idle is a bug. Thread safety:
// one thread at a time.
//
// Pages may be held beyond their sequences' end, for others that begin alike (prefix_tree.h). Those that no
// sequence uses are idle: room that is asked back when no page is free.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "llm/model/config.h"
#include "llm/torch.h"

namespace musacoder::llm {

inline constexpr std::int64_t kPage = 16;

struct PageTable {
  std::vector<std::int32_t> pages;
  std::int64_t length = 0;  // tokens
};

class KvCache {
 public:
  KvCache(const ModelConfig& config, at::ScalarType type, std::int64_t tokens,
          const at::Device& device = at::kCPU);
  static std::int64_t pages_for(std::int64_t tokens) { return (tokens + kPage - 1) / kPage; }
  std::int64_t free_pages() const { return static_cast<std::int64_t>(free_.size()); }
  std::int64_t idle_pages() const { return idle_; }
  std::int64_t pages() const { return static_cast<std::int64_t>(uses_.size()); }

  // Makes the sequence `length` tokens long; every page that will be written is its own afterwards.
  void extend(PageTable& table, std::int64_t length);
  PageTable fork(const PageTable& table);
  void release(PageTable& table);

  void hold(std::int32_t page);
  void let_go(std::int32_t page);
  bool idle(std::int32_t page) const {
    return held_[static_cast<std::size_t>(page)] && uses_[static_cast<std::size_t>(page)] == 1;
  }
  // A sequence that begins with these full, held pages.
  PageTable begin_with(std::vector<std::int32_t> pages);
  // The table's full page `index` gives way to a held one with the same content.
  void replace(PageTable& table, std::size_t index, std::int32_t page);
  // Called when a page is needed, none is free and some are idle: lets go of at least one idle page.
  void on_need(std::function<void()> reclaim) { reclaim_ = std::move(reclaim); }

  at::ScalarType type() const { return type_; }
  // [kPage, head_dim] of one kv head. `layer`: one of attention.
  void* keys(std::int64_t layer, std::int64_t page, std::int64_t head) const {
    return at_(2 * place(layer), page, head);
  }
  void* values(std::int64_t layer, std::int64_t page, std::int64_t head) const {
    return at_(2 * place(layer) + 1, page, head);
  }

 private:
  void* at_(std::int64_t part, std::int64_t page, std::int64_t head) const {
    return static_cast<char*>(store_.data_ptr()) +
           (((part * pages() + page) * heads_ + head) * kPage * dim_) *
               static_cast<std::int64_t>(store_.element_size());
  }
  std::int64_t place(std::int64_t layer) const { return places_[static_cast<std::size_t>(layer)]; }
  std::int32_t take();
  void drop(std::int32_t page);
  void change(std::int32_t page, std::int32_t uses, bool held);
  at::ScalarType type_;
  std::int64_t heads_, dim_;
  at::Tensor store_;                  // [2 * attention layers, pages, kv_heads, kPage, head_dim]
  std::vector<std::int64_t> places_;  // of each layer in the store; -1: it has no keys
  std::vector<std::int32_t> uses_, free_;
  std::vector<bool> held_;
  std::int64_t idle_ = 0;
  std::function<void()> reclaim_;
};

}  // namespace musacoder::llm
