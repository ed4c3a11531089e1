#include "port/tokens.h"

namespace musacoder::port {

bool is_word_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' ||
         static_cast<unsigned char>(c) >= 0x80;
}

bool is_word_char(char c) { return is_word_start(c) || (c >= '0' && c <= '9'); }

std::vector<Token> build_tokens(std::string_view text) {
  std::vector<Token> tokens;
  auto is_part = [](char c) { return is_word_char(c) || c == '-' || c == '.' || c == '/'; };
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    Token token{.kind = Kind::kPunct, .begin = i, .end = i + 1};
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v') {
      ++i;
      continue;
    }
    if (c == '#') {
      token.kind = Kind::kComment;
      while (token.end < text.size() && text[token.end] != '\n') ++token.end;
    } else if (c == '"') {
      token.kind = Kind::kString;
      while (token.end < text.size() && text[token.end] != '"') token.end += text[token.end] == '\\' ? 2 : 1;
      token.end = std::min(token.end, text.size());
      token.body_begin = i + 1;
      token.body_end = token.end;
      if (token.end < text.size()) ++token.end;
    } else if (is_part(c)) {
      token.kind = Kind::kWord;
      while (token.end < text.size() && is_part(text[token.end])) ++token.end;
    }
    tokens.push_back(token);
    i = token.end;
  }
  return tokens;
}

}  // namespace musacoder::port
