// What tokenizers ask of Unicode: code points, classes, normal forms, and text made valid.
//
//   std::string clean = valid_utf8("a\xff");                 // "a\ufffd", as Python's errors="replace"
//   for (std::size_t at = 0; at < clean.size();) { CodePoint c = code_point(clean, at); at += c.length; ... }
//   char_class(U'é') & kLetter;
//   normalize("e\u0301", NormalForm::kNfc);                  // "é"
//
// Classes are those of Unicode 16, which PyPI tokenizers and tiktoken go by: utf8proc's (15.0 in Debian 12) and a table
// of what came since. Normal forms are utf8proc's. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace musacoder::llm {

enum CharClass : std::uint8_t {
  kLetter = 1,    // \p{L}
  kMark = 2,      // \p{M}
  kNumber = 4,    // \p{N}
  kSpace = 8,     // \s, White_Space
  kNewline = 16,  // \r and \n
  kWord = 32,     // \w of Rust's regex: Alphabetic, M, Nd, Pc, Join_Control
  kNfcMay = 64,   // may be changed by NFC, or change what is before it
};

struct CodePoint {
  char32_t value = 0;
  unsigned length = 1;   // bytes
};

// The code point at `at` of a valid UTF-8 text, `at` at the start of one.
inline CodePoint code_point(std::string_view text, std::size_t at) {
  const auto* p = reinterpret_cast<const unsigned char*>(text.data()) + at;
  if (p[0] < 0x80) return {p[0], 1};
  if (p[0] < 0xe0) return {(p[0] & 0x1fu) << 6 | (p[1] & 0x3fu), 2};
  if (p[0] < 0xf0) return {(p[0] & 0xfu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu), 3};
  return {(p[0] & 0x7u) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 | (p[3] & 0x3fu), 4};
}
void append_utf8(std::string& out, char32_t c);

// Two-stage table behind char_class(); 256 code points a page.
struct ClassTable {
  const std::uint8_t* pages;
  const std::uint16_t* page_of;
};
const ClassTable& class_table();
inline std::uint8_t char_class(char32_t c) {
  static const ClassTable& table = class_table();
  return c < 0x110000 ? table.pages[table.page_of[c >> 8] * 256 + (c & 255)] : 0;
}

// Length of the longest prefix that is valid UTF-8 (no surrogates, nothing overlong).
std::size_t valid_prefix(std::string_view text);
// Bytes at the end of `text` that begin a character whose rest has not come yet: 0 to 3.
std::size_t incomplete_tail(std::string_view text);
// Each maximal part of an ill-formed sequence becomes U+FFFD.
std::string valid_utf8(std::string_view text);

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };
// Of a valid UTF-8 text.
std::string normalize(std::string_view text, NormalForm form);
// Whether normalize(text, kNfc) surely returns the text itself; false means "perhaps not". The fast answer for nearly all text.
bool surely_nfc(std::string_view text);

}  // namespace musacoder::llm
