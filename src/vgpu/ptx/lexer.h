// Splits PTX text into tokens. Views point into the text, which must outlive them.
#pragma once

#include <cstdint>
#include <string_view>

namespace musacoder::vgpu::ptx {

struct Token {
  enum class Kind : std::uint8_t {
    kEnd,
    kIdentifier,  // name, %reg, $label, _x
    kDotted,      // .directive or .modifier, text without the dot
    kInteger,     // bits
    kFloat,       // bits of a float (punct f) or a double (punct d)
    kString,      // text without quotes
    kPunct,       // one character in punct
    kBad,         // text says what is wrong
  };
  Kind kind = Kind::kEnd;
  char punct = 0;
  bool is_negative_literal = false;
  std::uint32_t line = 1;
  std::uint64_t bits = 0;
  std::string_view text;
  bool is(char c) const { return kind == Kind::kPunct && punct == c; }
  bool dotted(std::string_view name) const { return kind == Kind::kDotted && text == name; }
  bool ident(std::string_view name) const { return kind == Kind::kIdentifier && text == name; }
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}
  Token next();
  // Skips to just after the matching closing brace; the opening one was consumed. False at the end of the text.
  bool skip_braces();
  std::uint32_t line() const { return line_; }

 private:
  void skip_space();
  Token number();
  std::string_view text_;
  std::size_t at_ = 0;
  std::uint32_t line_ = 1;
};

}  // namespace musacoder::vgpu::ptx
