#include "llm/tokenizer/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <utility>

#include "base/terminal.h"
#include "llm/tokenizer/unicode.h"

namespace musacoder::llm {
namespace {

constexpr const char* kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen35Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kCl100kPattern =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s)";

constexpr std::pair<const char*, Scanner> kPatterns[] = {
    {kGpt2Pattern, Scanner::kGpt2},     {kQwen2Pattern, Scanner::kQwen2},   {kQwen35Pattern, Scanner::kQwen35},
    {kLlama3Pattern, Scanner::kLlama3}, {kCl100kPattern, Scanner::kLlama3}, {R"(\p{N})", Scanner::kDigits},
};

struct Char {
  unsigned classes, length;
};

Char char_at(std::string_view text, std::size_t at) {
  const CodePoint c = code_point(text, at);
  return {char_class(c.value), c.length};
}

// The end of the run of characters from `at` on that have one of `wanted` and none of `unwanted`; `most` of them.
std::size_t run_of(std::string_view text, std::size_t at, unsigned wanted, std::size_t most = SIZE_MAX) {
  for (; at < text.size() && most > 0; --most) {
    const Char c = char_at(text, at);
    if (!(c.classes & wanted)) break;
    at += c.length;
  }
  return at;
}
std::size_t run_without(std::string_view text, std::size_t at, unsigned unwanted) {
  while (at < text.size()) {
    const Char c = char_at(text, at);
    if (c.classes & unwanted) break;
    at += c.length;
  }
  return at;
}

// 's 't 're 've 'm 'll 'd at an apostrophe: bytes, or 0. With `fold`, in either case, and ſ (U+017F) counts as s.
std::size_t contraction(std::string_view text, std::size_t at, bool fold) {
  const auto letter = [&](std::size_t i) -> char {
    if (i >= text.size()) return 0;
    const char c = text[i];
    return fold && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  };
  switch (letter(at + 1)) {
    case 's': case 't': case 'm': case 'd': return 2;
    case 'r': case 'v': return letter(at + 2) == 'e' ? 3 : 0;
    case 'l': return letter(at + 2) == 'l' ? 3 : 0;
    default: return fold && text.substr(at + 1, 2) == "\xc5\xbf" ? 3 : 0;
  }
}

// Where a run of white space [at, end) is cut by \s+(?!\S)|\s+ : before its last character, if something follows it.
std::size_t space_end(std::string_view text, std::size_t at, std::size_t end) {
  if (end == text.size()) return end;
  std::size_t last = end - 1;
  while ((static_cast<unsigned char>(text[last]) & 0xc0) == 0x80) --last;
  return last > at ? last : end;
}

std::size_t next_gpt2(std::string_view text, std::size_t at) {
  if (text[at] == '\'')
    if (const std::size_t n = contraction(text, at, false)) return at + n;
  const std::size_t from = text[at] == ' ' && at + 1 < text.size() ? at + 1 : at;
  const Char c = char_at(text, from);
  if (c.classes & kLetter) return run_of(text, from, kLetter);
  if (c.classes & kNumber) return run_of(text, from, kNumber);
  if (!(c.classes & kSpace)) return run_without(text, from, kSpace | kLetter | kNumber);
  return space_end(text, at, run_of(text, at, kSpace));
}

// `letters`: what a word is made of. `digits`: how many make one. In order: the alternatives of the expressions above.
std::size_t next_modern(std::string_view text, std::size_t at, unsigned letters, std::size_t digits) {
  if (text[at] == '\'')
    if (const std::size_t n = contraction(text, at, true)) return at + n;
  const Char c = char_at(text, at);
  const std::size_t after = at + c.length;
  if (c.classes & kLetter) return run_of(text, after, letters);
  if (!(c.classes & (kNumber | kNewline)) && after < text.size() && char_at(text, after).classes & letters)
    return run_of(text, after, letters);
  if (c.classes & letters) return after;   // a lone mark, where marks count as letters
  if (c.classes & kNumber) return run_of(text, after, kNumber, digits - 1);
  const std::size_t from = text[at] == ' ' && after < text.size() ? after : at;
  if (!(char_at(text, from).classes & (kSpace | kNumber | letters)))
    return run_of(text, run_without(text, from, kSpace | kNumber | letters), kNewline);
  const std::size_t end = run_of(text, at, kSpace);
  for (std::size_t i = end; i > at; --i)
    if (text[i - 1] == '\n' || text[i - 1] == '\r') return i;
  return space_end(text, at, end);
}

void scan(Scanner scanner, std::string_view text, std::vector<std::string_view>& out) {
  std::size_t at = 0;
  const auto emit = [&](std::size_t end) {
    out.push_back(text.substr(at, end - at));
    at = end;
  };
  switch (scanner) {
    case Scanner::kGpt2:
      while (at < text.size()) emit(next_gpt2(text, at));
      return;
    case Scanner::kQwen2:
      while (at < text.size()) emit(next_modern(text, at, kLetter, 1));
      return;
    case Scanner::kQwen35:
      while (at < text.size()) emit(next_modern(text, at, kLetter | kMark, 1));
      return;
    case Scanner::kLlama3:
      while (at < text.size()) emit(next_modern(text, at, kLetter, 3));
      return;
    case Scanner::kDigits:
      while (at < text.size()) {
        if (const std::size_t end = run_without(text, at, kNumber); end > at) emit(end);
        if (at < text.size()) emit(at + char_at(text, at).length);
      }
      return;
  }
}

struct Piece {
  std::size_t begin, end;
  bool matched;
};

// Turns matches and the gaps between them into words. The behaviours are those of Hugging Face's NormalizedString::split.
void emit_pieces(std::string_view text, std::vector<Piece> pieces, SplitBehaviour behaviour, bool invert, std::vector<std::string_view>& out) {
  if (invert)
    for (Piece& p : pieces) p.matched = !p.matched;
  std::vector<Piece> words;
  switch (behaviour) {
    case SplitBehaviour::kIsolated: words = std::move(pieces); break;
    case SplitBehaviour::kRemoved:
      for (const Piece& p : pieces)
        if (!p.matched) words.push_back(p);
      break;
    case SplitBehaviour::kContiguous:
      for (const Piece& p : pieces) {
        if (!words.empty() && words.back().matched == p.matched) words.back().end = p.end;
        else words.push_back(p);
      }
      break;
    case SplitBehaviour::kMergedWithPrevious: {
      bool previous = false;
      for (const Piece& p : pieces) {
        if (p.matched && !previous && !words.empty()) words.back().end = p.end;
        else words.push_back(p);
        previous = p.matched;
      }
      break;
    }
    case SplitBehaviour::kMergedWithNext: {
      bool next = false;
      for (std::size_t i = pieces.size(); i-- > 0;) {
        if (pieces[i].matched && !next && !words.empty()) words.back().begin = pieces[i].begin;
        else words.push_back(pieces[i]);
        next = pieces[i].matched;
      }
      for (std::size_t i = 0, j = words.size(); i + 1 < j; ++i) std::swap(words[i], words[--j]);
      break;
    }
  }
  for (const Piece& w : words)
    if (w.end > w.begin) out.push_back(text.substr(w.begin, w.end - w.begin));
}

}  // namespace

struct Splitter::Regex {
  pcre2_code* code = nullptr;
  pcre2_match_context* context = nullptr;
  std::string text;
  ~Regex() {
    pcre2_match_context_free(context);
    pcre2_code_free(code);
  }
};

std::string scanner_pattern(Scanner scanner) {
  for (const auto& [pattern, which] : kPatterns)
    if (which == scanner) return pattern;
  return "";
}

Splitter Splitter::scanner(Scanner scanner) {
  Splitter result;
  result.scanner_ = scanner;
  return result;
}

Result<Splitter> Splitter::regex(const std::string& pattern, SplitBehaviour behaviour, bool invert) {
  // The families' expressions match everything (digits: with gaps kept as words), so that these settings are the same.
  for (const auto& [known, which] : kPatterns) {
    const bool whole = which != Scanner::kDigits;
    if (pattern == known && ((behaviour == SplitBehaviour::kIsolated && (whole || !invert)) ||
                             (behaviour == SplitBehaviour::kRemoved && invert && whole)))
      return scanner(which);
  }
  auto regex = std::make_shared<Regex>();
  int error = 0;
  PCRE2_SIZE at = 0;
  regex->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr);
  if (!regex->code) {
    PCRE2_UCHAR text[200] = {};
    pcre2_get_error_message(error, text, sizeof text);
    return fail(Code::kUnsupported, "pre-tokenizer expression '{}' cannot be used: {} at byte {}", base::printable(pattern.substr(0, 300), false),
                reinterpret_cast<const char*>(text), at);
  }
  (void)pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE);   // without it matching is slower, no more
  regex->context = pcre2_match_context_create(nullptr);
  pcre2_set_match_limit(regex->context, 10'000'000);
  regex->text = pattern;
  Splitter result;
  result.behaviour_ = behaviour;
  result.invert_ = invert;
  result.regex_ = std::move(regex);
  return result;
}

Result<Splitter> Splitter::literal(const std::string& text, SplitBehaviour behaviour, bool invert) {
  std::string pattern;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x80 && !(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z')) pattern += '\\';
    pattern += c;
  }
  return regex(pattern, behaviour, invert);
}

Status Splitter::run(std::string_view text, std::vector<std::string_view>& out) const {
  if (!regex_) {
    scan(scanner_, text, out);
    return ok();
  }
  std::vector<Piece> pieces;
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data(pcre2_match_data_create_from_pattern(regex_->code, nullptr),
                                                                                 &pcre2_match_data_free);
  std::size_t at = 0, last = 0;
  while (at <= text.size()) {
    const auto match = [&](std::uint32_t options) {
      return pcre2_match(regex_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at, options, data.get(), regex_->context);
    };
    int count = match(PCRE2_NO_UTF_CHECK);
    if (count == PCRE2_ERROR_JIT_STACKLIMIT) count = match(PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT);
    if (count == PCRE2_ERROR_NOMATCH) break;
    if (count < 0)
      return fail(Code::kResourceExhausted, "pre-tokenizer expression '{}' gave up on a text of {} bytes (PCRE2 error {})",
                  base::printable(regex_->text.substr(0, 300), false), text.size(), count);
    const PCRE2_SIZE* span = pcre2_get_ovector_pointer(data.get());
    if (span[1] <= span[0]) {   // an empty match splits nothing
      if (span[1] >= text.size()) break;
      at = span[1] + code_point(text, span[1]).length;
      continue;
    }
    if (span[0] > last) pieces.push_back({last, span[0], false});
    pieces.push_back({span[0], span[1], true});
    at = last = span[1];
  }
  if (last < text.size()) pieces.push_back({last, text.size(), false});
  emit_pieces(text, std::move(pieces), behaviour_, invert_, out);
  return ok();
}

}  // namespace musacoder::llm
