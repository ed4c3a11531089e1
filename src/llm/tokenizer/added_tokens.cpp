#include "llm/tokenizer/added_tokens.h"

#include <algorithm>

#include "llm/tokenizer/unicode.h"

namespace musacoder::llm {
namespace {

// Start of the character that ends before `at`.
std::size_t step_back(std::string_view text, std::size_t at) {
  do --at;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80);
  return at;
}

bool word_before(std::string_view text, std::size_t at) { return at > 0 && char_class(code_point(text, step_back(text, at)).value) & kWord; }
bool word_after(std::string_view text, std::size_t at) { return at < text.size() && char_class(code_point(text, at).value) & kWord; }

}  // namespace

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens, std::vector<std::string> contents) : tokens_(std::move(tokens)), nodes_(1) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    if (contents[i].empty()) continue;
    begins_[static_cast<unsigned char>(contents[i][0])] = true;
    std::uint32_t at = 0;
    for (const char c : contents[i]) {
      const auto byte = static_cast<unsigned char>(c);
      auto& next = nodes_[at].next;
      const auto found = std::find_if(next.begin(), next.end(), [&](const auto& edge) { return edge.first == byte; });
      if (found != next.end()) {
        at = found->second;
      } else {
        const auto fresh = static_cast<std::uint32_t>(nodes_.size());
        next.emplace_back(byte, fresh);
        nodes_.emplace_back();
        at = fresh;
      }
    }
    if (nodes_[at].token < 0) nodes_[at].token = static_cast<std::int32_t>(i);
  }
}

std::pair<std::int32_t, std::size_t> AddedTokenFinder::longest_at(std::string_view text, std::size_t at) const {
  std::int32_t token = -1;
  std::size_t length = 0;
  std::uint32_t node = 0;
  for (std::size_t i = at; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto& next = nodes_[node].next;
    const auto found = std::find_if(next.begin(), next.end(), [&](const auto& edge) { return edge.first == byte; });
    if (found == next.end()) break;
    node = found->second;
    if (nodes_[node].token >= 0) token = nodes_[node].token, length = i + 1 - at;
  }
  return {token, length};
}

void AddedTokenFinder::find(std::string_view text, const std::function<bool(const AddedToken&)>& allowed,
                            const std::function<void(std::size_t, std::size_t, const AddedToken*)>& piece) const {
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (!begins_[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    const auto [index, length] = longest_at(text, at);
    if (index < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<std::size_t>(index)];
    std::size_t begin = at, end = at + length;
    at = end;
    if (!allowed(token) || (token.single_word && (word_before(text, begin) || word_after(text, end)))) continue;
    if (token.lstrip)
      while (begin > done) {
        const std::size_t before = step_back(text, begin);
        if (before < done || !(char_class(code_point(text, before).value) & kSpace)) break;
        begin = before;
      }
    if (token.rstrip)
      while (end < text.size()) {
        const CodePoint c = code_point(text, end);
        if (!(char_class(c.value) & kSpace)) break;
        end += c.length;
      }
    if (done < begin) piece(done, begin, nullptr);
    piece(begin, end, &token);
    done = end;
    at = std::max(at, done);
  }
  if (done < text.size()) piece(done, text.size(), nullptr);
}

}  // namespace musacoder::llm
