#include "vgpu/ptx/lexer.h"

#include <bit>
#include <cstdlib>
#include <string>

namespace musacoder::vgpu::ptx {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%';
}
bool is_name(char c) { return is_name_start(c) || is_digit(c); }
unsigned hex_value(char c) {
  if (is_digit(c)) return unsigned(c - '0');
  return unsigned((c | 32) - 'a' + 10);
}

}  // namespace

void Lexer::skip_space() {
  while (at_ < text_.size()) {
    char c = text_[at_];
    if (c == '\n') {
      ++line_;
      ++at_;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\0') {
      ++at_;
    } else if (c == '/' && at_ + 1 < text_.size() && text_[at_ + 1] == '/') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (c == '/' && at_ + 1 < text_.size() && text_[at_ + 1] == '*') {
      at_ += 2;
      while (at_ < text_.size() && !(text_[at_] == '*' && at_ + 1 < text_.size() && text_[at_ + 1] == '/')) {
        if (text_[at_] == '\n') ++line_;
        ++at_;
      }
      at_ = at_ + 2 < text_.size() ? at_ + 2 : text_.size();
    } else {
      break;
    }
  }
}

Token Lexer::number() {
  Token t;
  t.line = line_;
  std::size_t begin = at_;
  auto hex_digits = [&](unsigned max_digits) {
    std::uint64_t value = 0;
    unsigned digits = 0;
    while (at_ < text_.size() && is_hex(text_[at_]) && digits < max_digits) {
      value = value << 4 | hex_value(text_[at_]);
      ++at_;
      ++digits;
    }
    return std::pair(value, digits);
  };
  char second = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
  if (text_[at_] == '0' && (second == 'f' || second == 'F' || second == 'd' || second == 'D')) {
    bool single = (second | 32) == 'f';
    at_ += 2;
    auto [value, digits] = hex_digits(single ? 8 : 16);
    t.kind = Token::Kind::kFloat;
    if (digits != (single ? 8u : 16u)) {
      t.kind = Token::Kind::kBad;
      t.text = "a hexadecimal floating-point constant has too few digits";
      return t;
    }
    // Single-precision bits stay as they are, marked, so that a NaN keeps its payload.
    t.bits = value;
    t.punct = single ? 'f' : 'd';
    t.text = text_.substr(begin, at_ - begin);
    return t;
  }
  if (text_[at_] == '0' && (second == 'x' || second == 'X')) {
    at_ += 2;
    t.bits = hex_digits(16).first;
    t.kind = Token::Kind::kInteger;
  } else if (text_[at_] == '0' && (second == 'b' || second == 'B')) {
    at_ += 2;
    while (at_ < text_.size() && (text_[at_] == '0' || text_[at_] == '1')) t.bits = t.bits << 1 | unsigned(text_[at_++] - '0');
    t.kind = Token::Kind::kInteger;
  } else {
    std::size_t end = at_;
    bool real = false;
    while (end < text_.size() &&
           (is_digit(text_[end]) || text_[end] == '.' ||
            ((text_[end] == 'e' || text_[end] == 'E') && end + 1 < text_.size() &&
             (is_digit(text_[end + 1]) || text_[end + 1] == '-' || text_[end + 1] == '+')) ||
            ((text_[end] == '-' || text_[end] == '+') && (text_[end - 1] | 32) == 'e' && real))) {
      if (text_[end] == '.' || (text_[end] | 32) == 'e') real = true;
      ++end;
    }
    std::string copy(text_.substr(at_, std::min<std::size_t>(end - at_, 64)));
    if (real) {
      t.kind = Token::Kind::kFloat;
      t.bits = std::bit_cast<std::uint64_t>(std::strtod(copy.c_str(), nullptr));
      t.punct = 'd';
    } else {
      t.kind = Token::Kind::kInteger;
      t.bits = std::strtoull(copy.c_str(), nullptr, copy.size() > 1 && copy[0] == '0' ? 8 : 10);
    }
    at_ = end;
  }
  if (t.kind == Token::Kind::kInteger && at_ < text_.size() && text_[at_] == 'U') ++at_;
  t.text = text_.substr(begin, at_ - begin);
  return t;
}

Token Lexer::next() {
  skip_space();
  Token t;
  t.line = line_;
  if (at_ >= text_.size()) return t;
  char c = text_[at_];
  if (is_digit(c)) return number();
  if (is_name_start(c)) {
    std::size_t begin = at_++;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    t.kind = Token::Kind::kIdentifier;
    t.text = text_.substr(begin, at_ - begin);
    return t;
  }
  if (c == '.' && at_ + 1 < text_.size() && (is_name(text_[at_ + 1]))) {
    std::size_t begin = ++at_;
    while (at_ < text_.size() && (is_name(text_[at_]) || (text_[at_] == ':' && at_ + 2 < text_.size() &&
                                                          text_[at_ + 1] == ':' && is_name(text_[at_ + 2])) ||
                                  (text_[at_] == ':' && text_[at_ - 1] == ':')))
      ++at_;
    t.kind = Token::Kind::kDotted;
    t.text = text_.substr(begin, at_ - begin);
    return t;
  }
  if (c == '"') {
    std::size_t begin = ++at_;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      if (text_[at_] == '\n') ++line_;
      ++at_;
    }
    t.kind = Token::Kind::kString;
    t.text = text_.substr(begin, at_ - begin);
    if (at_ < text_.size()) ++at_;
    return t;
  }
  ++at_;
  if (std::string_view(",;:()[]{}<>+-!@|=*&~/^?").find(c) == std::string_view::npos) {
    t.kind = Token::Kind::kBad;
    t.text = "unexpected character";
    return t;
  }
  t.kind = Token::Kind::kPunct;
  t.punct = c;
  return t;
}

bool Lexer::skip_braces() {
  unsigned depth = 1;
  while (depth) {
    Token t = next();
    if (t.kind == Token::Kind::kEnd) return false;
    if (t.is('{')) ++depth;
    if (t.is('}')) --depth;
  }
  return true;
}

}  // namespace musacoder::vgpu::ptx
