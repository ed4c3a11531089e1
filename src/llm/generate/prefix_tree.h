// Which prompts have been read: a tree over full pages of tokens, so that a request that begins like an
// earlier one takes over its keys and values instead of computing them again.
//
//   PrefixTree tree(cache, states, /*snapshots=*/8);
//   PrefixTree::Found found = tree.find(prompt);           // pages to begin with, at least a token left to
//   read tree.insert(prompt, table);                            // later: what has been read
//
// Nodes are compared by their tokens, not by hashes alone, so nothing is ever taken for something else. As a
// token's keys and values are the same bits in any company (kernels/row_ops.h), results do not change either.
// The tree holds its pages in the cache; those that no sequence uses go when room is needed, leaves first,
// the longest unused first.
//
// Models with DeltaNet layers need the state at the end of the pages too. Snapshots of it are kept for a few
// nodes (`snapshots` slots of the states): a prefix counts as found up to its last page that has one. Where
// to take them is the caller's choice; Found::known says how far tokens were known without. Thread safety:
// one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "llm/generate/delta_states.h"
#include "llm/generate/kv_cache.h"
#include "llm/tokenizer/bpe.h"

namespace musacoder::llm {

class PrefixTree {
 public:
  // Cache and states must outlive the tree. `snapshots`: slots of `states` it may take.
  PrefixTree(KvCache& cache, DeltaStates& states, bool need_states, std::int64_t snapshots);

  struct Found {
    std::vector<std::int32_t> pages;
    std::int32_t state = -1;  // a slot with the state behind the pages; -1: zero, or the model has none
    std::int64_t known = 0;   // pages that are in the tree, snapshot or not
  };
  // Leaves at least one of `tokens` out, for the logits of the last.
  Found find(std::span<const TokenId> tokens);
  // Of a sequence's first tokens those that fill pages of its table. Where the tree has a page already, the
  // table gets that one.
  void insert(std::span<const TokenId> tokens, PageTable& table);
  // Keeps a copy of `state`, which is behind `tokens`; they fill pages and have been inserted. An earlier
  // snapshot gives way where there is no slot left.
  void keep_state(std::span<const TokenId> tokens, std::int32_t state);
  // Forgets all: the weights have changed. What was read before the epoch began must not be inserted.
  void clear();
  std::uint64_t epoch() const { return epoch_; }
  std::int64_t size() const { return static_cast<std::int64_t>(nodes_.size()); }  // pages
  std::int64_t snapshots() const { return static_cast<std::int64_t>(with_state_.size()); }

 private:
  using Page = std::array<TokenId, kPage>;
  struct Node {
    Node* parent = nullptr;
    std::map<Page, Node*> children;
    Page tokens{};
    std::int32_t page = -1, state = -1;
    std::uint64_t used = 0;
  };
  // The nodes of the leading pages of `tokens`, at most `most`.
  std::vector<Node*> walk(std::span<const TokenId> tokens, std::int64_t most);
  void touch(Node& node);
  void remove(Node& node);  // a leaf
  void drop_state(Node& node);
  void reclaim();

  KvCache& cache_;
  DeltaStates& states_;
  bool need_states_;
  std::int64_t most_snapshots_;
  Node root_;
  std::map<Node*, std::unique_ptr<Node>> nodes_;
  std::set<std::pair<std::uint64_t, Node*>> leaves_, with_state_;  // by last use
  std::uint64_t clock_ = 0, epoch_ = 0;
};

}  // namespace musacoder::llm
