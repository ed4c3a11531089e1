// GPT-2's reversible map of bytes to printable characters: bytes that print stand for themselves, the rest get U+0100 and up
// in order (https://github.com/openai/gpt-2/blob/master/src/encoder.py, bytes_to_unicode).
#include <array>

#include "llm/tokenizer/spec.h"
#include "llm/tokenizer/unicode.h"

namespace musacoder::llm {
namespace {

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<int, 0x144> byte{};   // by character; -1: stands for no byte

  Alphabet() {
    byte.fill(-1);
    char32_t next = 0x100;
    for (unsigned b = 0; b < 256; ++b) {
      const bool prints = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
      character[b] = prints ? b : next++;
      byte[character[b]] = static_cast<int>(b);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet instance;
  return instance;
}

}  // namespace

std::string to_byte_alphabet(std::string_view bytes) {
  std::string out;
  for (const char b : bytes) append_utf8(out, alphabet().character[static_cast<unsigned char>(b)]);
  return out;
}

std::optional<std::string> from_byte_alphabet(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = code_point(text, at);
    const int byte = c.value < alphabet().byte.size() ? alphabet().byte[c.value] : -1;
    if (byte < 0) return std::nullopt;
    out += static_cast<char>(byte);
    at += c.length;
  }
  return out;
}

}  // namespace musacoder::llm
