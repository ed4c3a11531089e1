#include "llm/tokenizer/unicode.h"

#include <utf8proc.h>

#include <array>
#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

namespace musacoder::llm {
namespace {

struct Range {
  char32_t first, last;
  std::uint8_t classes;
};

constexpr std::uint8_t L = kLetter | kWord, M = kMark | kWord, N = kNumber | kWord;

// Letters, marks and numbers that Unicode 15.1 and 16.0 added.
constexpr Range kSince15[] = {
    {0x897, 0x897, M},     {0x1c89, 0x1c8a, L},   {0xa7cb, 0xa7cd, L},   {0xa7da, 0xa7dc, L},   {0x105c0, 0x105f3, L},
    {0x10d40, 0x10d49, N}, {0x10d4a, 0x10d65, L}, {0x10d69, 0x10d6d, M}, {0x10d6f, 0x10d85, L}, {0x10ec2, 0x10ec4, L},
    {0x10efc, 0x10efc, M}, {0x11380, 0x11389, L}, {0x1138b, 0x1138b, L}, {0x1138e, 0x1138e, L}, {0x11390, 0x113b5, L},
    {0x113b7, 0x113b7, L}, {0x113b8, 0x113c0, M}, {0x113c2, 0x113c2, M}, {0x113c5, 0x113c5, M}, {0x113c7, 0x113ca, M},
    {0x113cc, 0x113d0, M}, {0x113d1, 0x113d1, L}, {0x113d2, 0x113d2, M}, {0x113d3, 0x113d3, L}, {0x113e1, 0x113e2, M},
    {0x116d0, 0x116e3, N}, {0x11bc0, 0x11be0, L}, {0x11bf0, 0x11bf9, N}, {0x11f5a, 0x11f5a, M}, {0x13460, 0x143fa, L},
    {0x16100, 0x1611d, L}, {0x1611e, 0x1612f, M}, {0x16130, 0x16139, N}, {0x16d40, 0x16d6c, L}, {0x16d70, 0x16d79, N},
    {0x18cff, 0x18cff, L}, {0x1ccf0, 0x1ccf9, N}, {0x1e5d0, 0x1e5ed, L}, {0x1e5ee, 0x1e5ef, M}, {0x1e5f0, 0x1e5f0, L},
    {0x1e5f1, 0x1e5fa, N}, {0x2ebf0, 0x2ee5d, L},
};

// What is Alphabetic without being a letter, mark or letter number (PropList, Other_Alphabetic), and Join_Control.
constexpr Range kAlsoWord[] = {
    {0x200c, 0x200d, kWord}, {0x24b6, 0x24e9, kWord}, {0x1f130, 0x1f149, kWord}, {0x1f150, 0x1f169, kWord}, {0x1f170, 0x1f189, kWord},
};

// White_Space (PropList).
constexpr Range kSpaces[] = {
    {0x9, 0xd, kSpace},       {0x20, 0x20, kSpace},     {0x85, 0x85, kSpace},     {0xa0, 0xa0, kSpace},     {0x1680, 0x1680, kSpace},
    {0x2000, 0x200a, kSpace}, {0x2028, 0x2029, kSpace}, {0x202f, 0x202f, kSpace}, {0x205f, 0x205f, kSpace}, {0x3000, 0x3000, kSpace},
};

std::uint8_t classes_of_category(utf8proc_category_t category) {
  switch (category) {
    case UTF8PROC_CATEGORY_LU: case UTF8PROC_CATEGORY_LL: case UTF8PROC_CATEGORY_LT: case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return L;
    case UTF8PROC_CATEGORY_MN: case UTF8PROC_CATEGORY_MC: case UTF8PROC_CATEGORY_ME: return M;
    case UTF8PROC_CATEGORY_ND: case UTF8PROC_CATEGORY_NL: return N;
    case UTF8PROC_CATEGORY_NO: return kNumber;
    case UTF8PROC_CATEGORY_PC: return kWord;
    default: return 0;
  }
}

std::string mapped(std::string_view text, int options) {
  utf8proc_uint8_t* result = nullptr;
  const auto length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                                   &result, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(result, &std::free);
  if (length < 0) return std::string(text);   // out of memory; there is no other error for valid UTF-8
  return std::string(reinterpret_cast<const char*>(result), static_cast<std::size_t>(length));
}

// A text without these is its own NFC: marks with a combining class, what a character's canonical decomposition has after
// its first place (so what may compose with the character before it), and what NFC replaces.
void mark_nfc(std::vector<std::uint8_t>& all) {
  for (char32_t c = 0x300; c < 0x110000; ++c) {
    const auto* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
    if (property->combining_class != 0) all[c] |= kNfcMay;
    if (property->decomp_seqindex == UINT16_MAX || property->decomp_type != 0) continue;
    utf8proc_int32_t parts[32];
    int boundary = 0;
    const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts, 32, UTF8PROC_DECOMPOSE, &boundary);
    for (utf8proc_ssize_t i = 1; i < count && i < 32; ++i) all[static_cast<std::size_t>(parts[i])] |= kNfcMay;
    std::string text;
    append_utf8(text, c);
    if (mapped(text, UTF8PROC_COMPOSE) != text) all[c] |= kNfcMay;
  }
  for (char32_t c = 0x1161; c <= 0x11c2; ++c) all[c] |= kNfcMay;   // Hangul vowels and final consonants
}

struct Tables {
  std::vector<std::uint8_t> pages;
  std::array<std::uint16_t, 0x1100> page_of{};
  ClassTable view{};

  Tables() {
    std::vector<std::uint8_t> all(0x110000);
    for (char32_t c = 0; c < 0x110000; ++c) all[c] = classes_of_category(utf8proc_category(static_cast<utf8proc_int32_t>(c)));
    for (const Range& r : kSince15)
      for (char32_t c = r.first; c <= r.last; ++c) all[c] = r.classes;
    for (const Range& r : kAlsoWord)
      for (char32_t c = r.first; c <= r.last; ++c) all[c] |= r.classes;
    for (const Range& r : kSpaces)
      for (char32_t c = r.first; c <= r.last; ++c) all[c] |= r.classes;
    mark_nfc(all);
    all['\r'] |= kNewline;
    all['\n'] |= kNewline;
    std::map<std::string, std::uint16_t> seen;
    for (std::size_t page = 0; page < page_of.size(); ++page) {
      std::string bytes(reinterpret_cast<const char*>(all.data()) + page * 256, 256);
      const auto [at, fresh] = seen.emplace(std::move(bytes), static_cast<std::uint16_t>(pages.size() / 256));
      if (fresh) pages.insert(pages.end(), at->first.begin(), at->first.end());
      page_of[page] = at->second;
    }
    view = {pages.data(), page_of.data()};
  }
};

// Length of the well-formed sequence at `at`; 0 for none, and then `bad` is the length of the maximal ill-formed part
// (Unicode 15, table 3-7 and "U+FFFD Substitution of Maximal Subparts").
unsigned sequence(std::string_view text, std::size_t at, unsigned& bad) {
  const auto byte = [&](std::size_t i) -> unsigned { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0x100u; };
  const unsigned b = byte(at);
  bad = 1;
  if (b < 0x80) return 1;
  unsigned low = 0x80, high = 0xbf, length = 0;
  if (b >= 0xc2 && b <= 0xdf) length = 2;
  else if (b >= 0xe0 && b <= 0xef) length = 3, low = b == 0xe0 ? 0xa0 : 0x80, high = b == 0xed ? 0x9f : 0xbf;
  else if (b >= 0xf0 && b <= 0xf4) length = 4, low = b == 0xf0 ? 0x90 : 0x80, high = b == 0xf4 ? 0x8f : 0xbf;
  else return 0;
  for (unsigned i = 1; i < length; ++i, low = 0x80, high = 0xbf) {
    const unsigned next = byte(at + i);
    if (next < low || next > high) return 0;
    bad = i + 1;
  }
  return length;
}

}  // namespace

const ClassTable& class_table() {
  static const Tables tables;
  return tables.view;
}

void append_utf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xc0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xe0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3f));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  }
}

std::size_t valid_prefix(std::string_view text) {
  std::size_t at = 0;
  unsigned bad = 0;
  while (at < text.size()) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const unsigned length = sequence(text, at, bad);
    if (length == 0) break;
    at += length;
  }
  return at;
}

std::size_t incomplete_tail(std::string_view text) {
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto b = static_cast<unsigned char>(text[text.size() - back]);
    if (b < 0x80) return 0;
    if (b >= 0xc0) {
      unsigned bad = 0;
      if (sequence(text, text.size() - back, bad) != 0) return 0;
      const unsigned length = b >= 0xf0 ? 4 : b >= 0xe0 ? 3 : 2;
      // All that is there so far is the beginning of a well-formed sequence.
      return b >= 0xc2 && b <= 0xf4 && bad == back && back < length ? back : 0;
    }
  }
  return 0;
}

std::string valid_utf8(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t good = valid_prefix(text);
    out.append(text.substr(0, good));
    text.remove_prefix(good);
    if (text.empty()) break;
    unsigned bad = 1;
    (void)sequence(text, 0, bad);
    out += "\xef\xbf\xbd";
    text.remove_prefix(bad);
  }
  return out;
}

bool surely_nfc(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0xcc) {   // below U+0300, or the rest of such a character
      ++at;
      continue;
    }
    const CodePoint c = code_point(text, at);
    if (char_class(c.value) & kNfcMay) return false;
    at += c.length;
  }
  return true;
}

std::string normalize(std::string_view text, NormalForm form) {
  bool ascii = true;
  for (const char c : text) ascii &= static_cast<unsigned char>(c) < 0x80;
  if (ascii || (form == NormalForm::kNfc && surely_nfc(text))) return std::string(text);
  const int compose = form == NormalForm::kNfc || form == NormalForm::kNfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  const int compat = form == NormalForm::kNfkc || form == NormalForm::kNfkd ? UTF8PROC_COMPAT : 0;
  return mapped(text, compose | compat);
}

}  // namespace musacoder::llm
