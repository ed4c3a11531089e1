// Jinja's text into tokens, with the white-space rules of trim_blocks and lstrip_blocks, which chat templates are written for
// (https://jinja.palletsprojects.com/en/stable/templates/#whitespace-control).
//
//   for (const Token& token : tokenize("a {%- if x %}b{% endif %}")) …   // kData "a", kBlockBegin, kName "if", …
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace musacoder::llm::jinja {

enum class TokenKind { kData, kVariableBegin, kVariableEnd, kBlockBegin, kBlockEnd, kName, kString, kInteger, kFloat, kOperator, kEnd };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;   // kString: the value; numbers: their digits without underscores
  int line = 1;
};

// Throws Fault with its line: what is not closed, a character that belongs nowhere.
std::vector<Token> tokenize(std::string_view source);

}  // namespace musacoder::llm::jinja
