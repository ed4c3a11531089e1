// Text to token ids and back, with the same result as Hugging Face's `tokenizers` for byte-level (and byte-fallback) BPE.
//
//   MC_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::open("Qwen3-0.6B"));       // a folder, tokenizer.json or .gguf
//   std::vector<TokenId> ids = *tokenizer.encode("Hello <|im_end|>");
//   // Text of a user or a candidate must not speak with the chat format's voice:
//   ids = *tokenizer.encode(answer, {.specials = Specials::kPlain});
//   std::string text = tokenizer.decode(ids);
//
//   StreamDecoder stream(tokenizer);
//   for (TokenId id : sampled) send(stream.put(id));         // whole characters only
//   send(stream.end());
//
// Input that is not UTF-8 is read as Python reads it with errors="replace". Thread safety: const; any number of threads.
// Reading: spec.h. Errors of encode(): only kResourceExhausted, from an expression that backtracks without end; the families'
// scanners cannot fail.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "llm/tokenizer/spec.h"

namespace musacoder::llm {

// Which added tokens a text may contain.
enum class Specials {
  kAll,      // every added token is recognised: for text made by a chat template
  kNone,     // special ones are plain text, others (Qwen's <think>, <tool_call>) are recognised: split_special_tokens
  kPlain,    // no added token is recognised: for text from outside
  kListed,   // those of `allowed`; others are plain text
};

struct EncodeOptions {
  Specials specials = Specials::kAll;
  std::vector<std::string> allowed;
  bool template_tokens = true;   // what the post-processor puts before and after, such as <s>
};

// A token and the bytes of the text that it stands for.
struct TokenSpan {
  TokenId id = 0;
  std::size_t begin = 0, end = 0;
};

class Tokenizer {
 public:
  static Result<Tokenizer> create(TokenizerSpec spec);
  // A folder in Hugging Face's layout, a tokenizer.json, or a GGUF file.
  static Result<Tokenizer> open(const std::string& path);

  Result<std::vector<TokenId>> encode(std::string_view text, const EncodeOptions& options = {}) const;
  // The same ids with their places in the text, for a mask over parts of it. A part of the text that normalisation changes
  // or that is not UTF-8 (then the whole text) is one place for all of its tokens; tokens of the template are empty places.
  Result<std::vector<TokenSpan>> encode_spans(std::string_view text, const EncodeOptions& options = {}) const;
  // On `threads` threads; 0: one a core. The first error, if any.
  Result<std::vector<std::vector<TokenId>>> encode_batch(const std::vector<std::string>& texts, const EncodeOptions& options = {},
                                                         int threads = 0) const;
  // Valid UTF-8: what does not form characters becomes U+FFFD. Ids without a token (a model's vocabulary is often padded)
  // give nothing.
  std::string decode(const std::vector<TokenId>& ids, bool skip_special = false) const;
  // With byte-level BPE the very bytes, valid UTF-8 or not; else decode() of the one token.
  std::string token_bytes(TokenId id) const;

  // One more than the largest id.
  std::size_t size() const;
  // The token's text in the file's alphabet; empty: no such id.
  std::string_view piece(TokenId id) const;
  std::optional<TokenId> id_of(std::string_view piece) const;
  bool is_special(TokenId id) const;
  // Text of a named token, e.g. "eos_token"; empty: none.
  std::string named(const std::string& name) const;
  std::optional<TokenId> named_id(const std::string& name) const;
  const TokenizerSpec& spec() const;

 private:
  friend class StreamDecoder;
  struct State;
  std::shared_ptr<const State> state_;
};

// Ids in, text out as soon as it is certain. What put() and end() return, joined, is decode() of all ids.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special = false) : tokenizer_(tokenizer), skip_special_(skip_special) {}
  std::string put(TokenId id);
  // What waited for the rest of a character, as U+FFFD.
  std::string end();

 private:
  Tokenizer tokenizer_;
  bool skip_special_;
  std::string waiting_;          // byte-level: bytes of an unfinished character
  std::vector<TokenId> window_;  // else: the ids since the last certain place
  std::string sent_;             // and their text that was returned
};

}  // namespace musacoder::llm
