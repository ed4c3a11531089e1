// Texts as tokens: what the rewriter may look at, and what it must step over.
//
//   for (const Token& token : cpp_tokens("#include <cuda.h>\nint x = 1'000;")) …
//
// Every byte of the text belongs to one token or to the white space between two. Any bytes are a text: an end
// quote that is missing ends the string at its line's end, as compilers' diagnostics do, and nothing is ever
// refused.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace musacoder::port {

enum class Kind {
  kWord,    // identifier or keyword
  kNumber,  // a C++ preprocessing number, or a Python number
  kString,  // a string literal with prefix and quotes
  kChar,    // a C++ character literal
  kComment,
  kHeader,   // <…> or "…" after #include, with its delimiters
  kPunct,    // one operator: "::", "->", ".", "(", …
  kNewline,  // Python only: the end of a logical line
};

// A replacement field of an f-string: the Python expression in its braces, as offsets into the text.
struct Field {
  std::size_t begin = 0, end = 0;  // with the braces
};

struct Token {
  Kind kind = Kind::kPunct;
  std::size_t begin = 0, end = 0;            // offsets into the text
  std::size_t body_begin = 0, body_end = 0;  // kString, kHeader: what stands between the delimiters
  bool raw = false;                          // kString: backslashes mean themselves
  bool formatted = false;  // kString, Python: an f-string; `fields` are its replacement fields
  std::vector<Field> fields = {};
  std::string_view text(std::string_view of) const { return of.substr(begin, end - begin); }
  std::string_view body(std::string_view of) const { return of.substr(body_begin, body_end - body_begin); }
};

// C++ with CUDA's extensions. "$" counts as a letter, so that a name with a placeholder in it stays one name.
std::vector<Token> cpp_tokens(std::string_view text);
// Python 3, f-strings of any version included. White space at line starts is not reported; kNewline is,
// outside brackets.
std::vector<Token> python_tokens(std::string_view text);
// CMake and make: "#" comments, "…" strings, words (with "-", "." and "/" in them: file names are words).
std::vector<Token> build_tokens(std::string_view text);

bool is_word_start(char c);
bool is_word_char(char c);  // letters, digits, "_", "$", and every byte of UTF-8 beyond ASCII

}  // namespace musacoder::port
