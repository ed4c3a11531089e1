// Splits text into the words that BPE merges within: the regular expressions of the model families, by hand-written
// scanners; any other expression by PCRE2.
//
//   MC_ASSIGN_OR_RETURN(Splitter split, Splitter::regex(R"(\p{N})", SplitBehaviour::kIsolated, false));
//   std::vector<std::string_view> words;
//   split.run("abc123", words);                       // "abc" "1" "2" "3"
//
// Scanned are the patterns of GPT-2, Qwen2/3, Qwen3.5, Llama-3 and cl100k; the enumerators below say which. PCRE2's idea of
// a letter is that of its own Unicode version (14 in Debian 12), the scanners' that of unicode.h.
// Texts are valid UTF-8. Thread safety: const.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace musacoder::llm {

// What becomes of the text that the expression matches (Hugging Face's SplitDelimiterBehavior).
enum class SplitBehaviour { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };

enum class Scanner {
  kGpt2,     // 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  kQwen2,    // (?i:'s|…)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
  kQwen35,   // as kQwen2 with [\p{L}\p{M}]+ for \p{L}+ and \p{M} beside \p{L} in the third set
  kLlama3,   // as kQwen2 with \p{N}{1,3}; cl100k's expression gives the same words
  kDigits,   // \p{N}, each a word
};
// The expressions as they stand in tokenizer.json.
std::string scanner_pattern(Scanner scanner);

class Splitter {
 public:
  static Splitter scanner(Scanner scanner);
  // `invert` splits off what does not match. kUnsupported for what PCRE2 cannot compile.
  static Result<Splitter> regex(const std::string& pattern, SplitBehaviour behaviour, bool invert);
  static Result<Splitter> literal(const std::string& text, SplitBehaviour behaviour, bool invert);

  // Appends the words of `text` to `out`, as views into it. kResourceExhausted: an expression that backtracks without end.
  Status run(std::string_view text, std::vector<std::string_view>& out) const;
  // Whether the words are found by a hand-written scanner.
  bool scanned() const { return !regex_; }

 private:
  struct Regex;
  Scanner scanner_ = Scanner::kGpt2;
  SplitBehaviour behaviour_ = SplitBehaviour::kIsolated;
  bool invert_ = false;
  std::shared_ptr<const Regex> regex_;
};

}  // namespace musacoder::llm
