#include "llm/generate/prefix_tree.h"

#include <algorithm>

namespace musacoder::llm {

PrefixTree::PrefixTree(KvCache& cache, DeltaStates& states, bool need_states, std::int64_t snapshots)
    : cache_(cache), states_(states), need_states_(need_states), most_snapshots_(snapshots) {
  cache_.on_need([this] { reclaim(); });
}

std::vector<PrefixTree::Node*> PrefixTree::walk(std::span<const TokenId> tokens, std::int64_t most) {
  std::vector<Node*> out;
  Node* at = &root_;
  while (static_cast<std::int64_t>(out.size()) < most) {
    Page page;
    std::copy_n(tokens.begin() + static_cast<std::ptrdiff_t>(out.size()) * kPage, kPage, page.begin());
    const auto next = at->children.find(page);
    if (next == at->children.end()) break;
    out.push_back(at = next->second);
  }
  return out;
}

void PrefixTree::touch(Node& node) {
  const std::uint64_t now = ++clock_;
  for (auto* order : {&leaves_, &with_state_})
    if (order->erase({node.used, &node})) order->insert({now, &node});
  node.used = now;
}

PrefixTree::Found PrefixTree::find(std::span<const TokenId> tokens) {
  Found out;
  std::vector<Node*> path = walk(tokens, (static_cast<std::int64_t>(tokens.size()) - 1) / kPage);
  out.known = static_cast<std::int64_t>(path.size());
  if (need_states_)
    while (!path.empty() && path.back()->state < 0) path.pop_back();
  for (Node* node : path) {
    touch(*node);
    out.pages.push_back(node->page);
  }
  if (!path.empty()) out.state = path.back()->state;
  return out;
}

void PrefixTree::insert(std::span<const TokenId> tokens, PageTable& table) {
  const std::int64_t full = std::min(static_cast<std::int64_t>(tokens.size()), table.length) / kPage;
  std::vector<Node*> path = walk(tokens, full);
  for (std::size_t i = 0; i < path.size(); ++i) {
    touch(*path[i]);
    // The page in use below a node is thereby a page of the same sequence as the node's own.
    if (table.pages[i] != path[i]->page) cache_.replace(table, i, path[i]->page);
  }
  for (auto i = static_cast<std::int64_t>(path.size()); i < full; ++i) {
    auto owned = std::make_unique<Node>();
    Node& node = *owned;
    node.parent = path.empty() ? &root_ : path.back();
    std::copy_n(tokens.begin() + i * kPage, kPage, node.tokens.begin());
    node.page = table.pages[static_cast<std::size_t>(i)];
    node.used = ++clock_;
    cache_.hold(node.page);
    leaves_.erase({node.parent->used, node.parent});
    leaves_.insert({node.used, &node});
    node.parent->children[node.tokens] = &node;
    nodes_.emplace(&node, std::move(owned));
    path.push_back(&node);
  }
}

void PrefixTree::keep_state(std::span<const TokenId> tokens, std::int32_t state) {
  const auto pages = static_cast<std::int64_t>(tokens.size()) / kPage;
  const std::vector<Node*> path = walk(tokens, pages);
  if (most_snapshots_ == 0 || pages == 0 || static_cast<std::int64_t>(path.size()) < pages) return;
  Node& node = *path.back();
  touch(node);
  if (node.state >= 0) return;
  if (snapshots() >= most_snapshots_) drop_state(*with_state_.begin()->second);
  node.state = states_.take();
  states_.copy(state, node.state);
  with_state_.insert({node.used, &node});
}

void PrefixTree::drop_state(Node& node) {
  if (node.state < 0) return;
  with_state_.erase({node.used, &node});
  states_.drop(std::exchange(node.state, -1));
}

void PrefixTree::remove(Node& node) {
  drop_state(node);
  leaves_.erase({node.used, &node});
  cache_.let_go(node.page);
  Node* parent = node.parent;
  parent->children.erase(node.tokens);
  if (parent != &root_ && parent->children.empty()) leaves_.insert({parent->used, parent});
  nodes_.erase(&node);
}

// A page in use has its whole way to the root in use, so as long as a page is idle there is an idle leaf.
void PrefixTree::reclaim() {
  for (const auto& [used, node] : leaves_)
    if (cache_.idle(node->page)) {
      remove(*node);
      return;
    }
}

void PrefixTree::clear() {
  ++epoch_;
  while (!leaves_.empty()) remove(*leaves_.begin()->second);
}

}  // namespace musacoder::llm
