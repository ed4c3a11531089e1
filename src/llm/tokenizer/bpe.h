// Byte pair encoding of one word: the pair of lowest rank is merged, the leftmost first, until none is left.
//
//   Bpe bpe(...);
//   Bpe::Scratch scratch;                       // one a thread
//   std::vector<TokenId> ids;
//   bpe.encode("hello", scratch, ids);          // appends
//
// Words of a few bytes are remembered in the scratch; short ones are merged by scanning for the lowest rank, long ones with
// a heap, so that a word of a megabyte takes n log n. Thread safety: const; a Scratch belongs to one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace musacoder::llm {

using TokenId = std::uint32_t;
inline constexpr TokenId kNoToken = UINT32_MAX;

struct BpeMerge {
  TokenId left = 0, right = 0, merged = 0;   // in order of rank
};

struct BpeOptions {
  bool bytes = true;              // symbols are bytes; false: characters
  bool ignore_merges = false;     // a word that is a token is that token, whatever the merges say
  bool byte_fallback = false;     // characters: one that is no token becomes its bytes' tokens "<0x0A>"
  bool fuse_unknown = false;      // neighbouring unknown symbols become one unknown token
  TokenId unknown = kNoToken;     // kNoToken: unknown symbols are dropped
};

class Bpe {
 public:
  class Scratch;

  // `vocabulary`: the text of every token (bytes, when options.bytes), each once. `merges` in order of rank; of a pair that is
  // given twice the later rank counts, as in PyPI tokenizers.
  Bpe(std::unordered_map<std::string, TokenId> vocabulary, const std::vector<BpeMerge>& merges, const BpeOptions& options);
  void encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const;
  // kNoToken: not in the vocabulary.
  TokenId find(std::string_view text) const;

 private:
  struct Slot {
    std::uint64_t pair = UINT64_MAX;
    std::uint32_t rank = 0;
    TokenId merged = 0;
  };
  const Slot* merge_of(TokenId left, TokenId right) const;
  void encode_uncached(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const;
  void symbols_of(std::string_view word, std::vector<TokenId>& out) const;
  void merge_short(std::vector<TokenId>& symbols, Scratch& scratch) const;
  void merge_long(std::vector<TokenId>& symbols) const;

  std::unordered_map<std::string, TokenId> vocabulary_;
  std::vector<Slot> slots_;          // open addressing, a power of two
  std::uint64_t mask_ = 0;
  std::array<TokenId, 256> byte_ids_{};   // bytes: the byte's token; characters: the token "<0x..>"
  BpeOptions options_;
};

class Bpe::Scratch {
 public:
  Scratch();

 private:
  friend class Bpe;
  static constexpr std::size_t kKey = 30, kIds = 8;
  struct Entry {                     // one cache line
    std::array<TokenId, kIds> ids;
    std::array<char, kKey> key;
    std::uint8_t length, count;
  };
  std::vector<Entry> cache_;         // direct mapped
  std::vector<TokenId> symbols_;
  std::vector<std::uint32_t> ranks_;
};

}  // namespace musacoder::llm
