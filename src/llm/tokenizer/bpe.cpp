#include "llm/tokenizer/bpe.h"

#include <cstring>
#include <queue>

#include "base/hash.h"
#include "llm/tokenizer/unicode.h"

namespace musacoder::llm {
namespace {

constexpr std::size_t kCacheEntries = 1 << 15;
constexpr std::size_t kShort = 64;         // symbols; above, the heap pays
constexpr std::uint32_t kNoRank = UINT32_MAX;

std::uint64_t mix(std::uint64_t pair) {
  pair *= 0x9e3779b97f4a7c15ull;
  return pair ^ pair >> 32;
}

std::string byte_token(unsigned byte) {
  constexpr const char* kHex = "0123456789ABCDEF";
  return {'<', '0', 'x', kHex[byte >> 4], kHex[byte & 15], '>'};
}

}  // namespace

Bpe::Scratch::Scratch() : cache_(kCacheEntries, Entry{{}, {}, 0, 0}) {}

Bpe::Bpe(std::unordered_map<std::string, TokenId> vocabulary, const std::vector<BpeMerge>& merges, const BpeOptions& options)
    : vocabulary_(std::move(vocabulary)), options_(options) {
  std::size_t capacity = 16;
  while (capacity < merges.size() * 2) capacity *= 2;
  slots_.resize(capacity);
  mask_ = capacity - 1;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::uint64_t pair = std::uint64_t{merges[rank].left} << 32 | merges[rank].right;
    std::uint64_t at = mix(pair) & mask_;
    while (slots_[at].pair != UINT64_MAX && slots_[at].pair != pair) at = (at + 1) & mask_;
    slots_[at] = {pair, static_cast<std::uint32_t>(rank), merges[rank].merged};
  }
  for (unsigned b = 0; b < 256; ++b) byte_ids_[b] = find(options_.bytes ? std::string(1, static_cast<char>(b)) : byte_token(b));
}

TokenId Bpe::find(std::string_view text) const {
  const auto found = vocabulary_.find(std::string(text));
  return found == vocabulary_.end() ? kNoToken : found->second;
}

const Bpe::Slot* Bpe::merge_of(TokenId left, TokenId right) const {
  const std::uint64_t pair = std::uint64_t{left} << 32 | right;
  for (std::uint64_t at = mix(pair) & mask_;; at = (at + 1) & mask_) {
    if (slots_[at].pair == pair) return &slots_[at];
    if (slots_[at].pair == UINT64_MAX) return nullptr;
  }
}

void Bpe::encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const {
  if (word.empty()) return;
  if (word.size() > Scratch::kKey) return encode_uncached(word, scratch, out);
  Scratch::Entry& entry = scratch.cache_[base::xxh3(word) % kCacheEntries];
  if (entry.length == word.size() && std::memcmp(entry.key.data(), word.data(), word.size()) == 0) {
    out.insert(out.end(), entry.ids.begin(), entry.ids.begin() + entry.count);
    return;
  }
  const std::size_t before = out.size();
  encode_uncached(word, scratch, out);
  const std::size_t count = out.size() - before;
  if (count > Scratch::kIds) return;
  entry.length = static_cast<std::uint8_t>(word.size());
  entry.count = static_cast<std::uint8_t>(count);
  std::memcpy(entry.key.data(), word.data(), word.size());
  std::copy(out.begin() + static_cast<std::ptrdiff_t>(before), out.end(), entry.ids.begin());
}

void Bpe::encode_uncached(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const {
  if (options_.ignore_merges)
    if (const TokenId whole = find(word); whole != kNoToken) {
      out.push_back(whole);
      return;
    }
  auto& symbols = scratch.symbols_;
  symbols.clear();
  symbols_of(word, symbols);
  if (symbols.size() <= kShort) merge_short(symbols, scratch);
  else merge_long(symbols);
  out.insert(out.end(), symbols.begin(), symbols.end());
}

void Bpe::symbols_of(std::string_view word, std::vector<TokenId>& out) const {
  TokenId pending = kNoToken;   // an unknown token that a neighbour may still fuse with
  const auto flush = [&] {
    if (pending != kNoToken) out.push_back(pending);
    pending = kNoToken;
  };
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t length = options_.bytes ? 1 : code_point(word, at).length;
    const std::string_view symbol = word.substr(at, length);
    at += length;
    const TokenId id = options_.bytes ? byte_ids_[static_cast<unsigned char>(symbol[0])] : find(symbol);
    if (id != kNoToken) {
      flush();
      out.push_back(id);
      continue;
    }
    if (options_.byte_fallback) {
      bool all = true;
      for (const char b : symbol) all &= byte_ids_[static_cast<unsigned char>(b)] != kNoToken;
      if (all) {
        for (const char b : symbol) out.push_back(byte_ids_[static_cast<unsigned char>(b)]);
        continue;
      }
    }
    if (!options_.fuse_unknown) flush();
    pending = options_.unknown;
  }
  flush();
}

void Bpe::merge_short(std::vector<TokenId>& symbols, Scratch& scratch) const {
  auto& ranks = scratch.ranks_;   // of the pair that begins at each place; merged ids are looked up again when chosen
  const auto rank_at = [&](std::size_t i) {
    const Slot* slot = i + 1 < symbols.size() ? merge_of(symbols[i], symbols[i + 1]) : nullptr;
    return slot ? slot->rank : kNoRank;
  };
  ranks.resize(symbols.size());
  for (std::size_t i = 0; i < symbols.size(); ++i) ranks[i] = rank_at(i);
  while (symbols.size() > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < ranks.size(); ++i)
      if (ranks[i] < ranks[best]) best = i;
    if (ranks[best] == kNoRank) return;
    symbols[best] = merge_of(symbols[best], symbols[best + 1])->merged;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    ranks.erase(ranks.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    ranks[best] = rank_at(best);
    if (best > 0) ranks[best - 1] = rank_at(best - 1);
  }
}

void Bpe::merge_long(std::vector<TokenId>& symbols) const {
  struct Node {
    TokenId id;
    std::uint32_t previous, next;   // kNoToken: none
  };
  struct Candidate {
    std::uint32_t rank, at;
    TokenId left, right, merged;
    bool operator>(const Candidate& other) const { return rank != other.rank ? rank > other.rank : at > other.at; }
  };
  const auto n = static_cast<std::uint32_t>(symbols.size());
  std::vector<Node> nodes(n);
  for (std::uint32_t i = 0; i < n; ++i) nodes[i] = {symbols[i], i == 0 ? kNoToken : i - 1, i + 1 == n ? kNoToken : i + 1};
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto consider = [&](std::uint32_t at) {
    if (at == kNoToken || nodes[at].next == kNoToken) return;
    const TokenId left = nodes[at].id, right = nodes[nodes[at].next].id;
    if (const Slot* slot = merge_of(left, right)) queue.push({slot->rank, at, left, right, slot->merged});
  };
  for (std::uint32_t i = 0; i < n; ++i) consider(i);
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    Node& node = nodes[top.at];
    // Merged away, or its neighbour has changed: a newer candidate stands for what is there now.
    if (node.id != top.left || node.next == kNoToken || nodes[node.next].id != top.right) continue;
    const std::uint32_t gone = node.next;
    node.id = top.merged;
    node.next = nodes[gone].next;
    if (node.next != kNoToken) nodes[node.next].previous = top.at;
    nodes[gone].id = kNoToken;
    consider(node.previous);
    consider(top.at);
  }
  symbols.clear();
  for (std::uint32_t i = 0; i != kNoToken; i = nodes[i].next) symbols.push_back(nodes[i].id);
}

}  // namespace musacoder::llm
