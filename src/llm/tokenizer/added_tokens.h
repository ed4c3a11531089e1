// Finds added tokens in a text: at each place the longest, from left to right.
//
//   AddedTokenFinder finder(tokens);                       // content and flags
//   finder.find(text, is_allowed, [&](std::size_t begin, std::size_t end, const AddedToken* token) { ... });
//
// The callback sees the whole text in order; token is nullptr for what lies between. Flags mean what they mean in PyPI
// tokenizers: a token that is not allowed, or not the single word it wants to be, is skipped as a whole. Thread safety: const.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "llm/tokenizer/spec.h"

namespace musacoder::llm {

class AddedTokenFinder {
 public:
  // `contents[i]` is what `tokens[i]` looks like in the text (normalised, where it is looked for there).
  AddedTokenFinder(std::vector<AddedToken> tokens, std::vector<std::string> contents);
  void find(std::string_view text, const std::function<bool(const AddedToken&)>& allowed,
            const std::function<void(std::size_t begin, std::size_t end, const AddedToken* token)>& piece) const;

 private:
  struct Node {
    std::vector<std::pair<unsigned char, std::uint32_t>> next;
    std::int32_t token = -1;
  };
  // Token at `at` and its length; -1: none.
  std::pair<std::int32_t, std::size_t> longest_at(std::string_view text, std::size_t at) const;
  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;
  bool begins_[256] = {};
};

}  // namespace musacoder::llm
