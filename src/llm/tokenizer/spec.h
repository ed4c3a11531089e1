// A tokenizer as data: what tokenizer.json, vocab.json with merges.txt and GGUF all come down to.
//
//   MC_ASSIGN_OR_RETURN(TokenizerSpec spec, read_tokenizer_json(text, "tokenizer.json"));
//   MC_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::create(std::move(spec)));
//   std::string same = tokenizer_json(spec);       // for a model whose tokenizer came from elsewhere
//
// The steps and their meaning are those of Hugging Face's `tokenizers` (https://huggingface.co/docs/tokenizers). What it has
// and this lacks (Unigram, WordPiece, BERT's and Metaspace's parts, dropout, prefixes and suffixes of words) is
// kUnsupported by name. `trim_offsets` is read and has no effect: spaces belong to
// their tokens.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "llm/tokenizer/bpe.h"
#include "llm/tokenizer/pre_tokenizer.h"

namespace musacoder::llm {

// A text that is looked for before anything else is done, and is one token.
struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;       // left out by decode(skip_special); not recognised in untrusted text
  bool single_word = false;   // only where no word character is beside it
  bool lstrip = false, rstrip = false;   // takes white space on that side with it
  bool normalized = false;    // looked for in the normalised text
};

struct NormalizeStep {
  enum Kind { kNfc, kNfd, kNfkc, kNfkd, kPrepend, kReplace } kind = kNfc;
  std::string pattern, content;   // kPrepend: content; kReplace: every `pattern` (a plain text) by content
};

struct SplitStep {
  enum Kind {
    kRegex,       // `pattern`
    kLiteral,     // `pattern` as plain text
    kDigits,      // every \p{N}; contiguous ones together, with SplitBehaviour::kContiguous
    kByteLevel,   // bytes become symbols; GPT-2's expression first, with `use_regex`
  } kind = kRegex;
  std::string pattern;
  SplitBehaviour behaviour = SplitBehaviour::kIsolated;
  bool invert = false, add_prefix_space = false, use_regex = true;
};

struct DecodeStep {
  enum Kind { kByteLevel, kByteFallback, kFuse, kReplace, kStrip } kind = kByteLevel;
  std::string pattern, content;      // kReplace; kStrip: one character
  std::size_t start = 0, stop = 0;   // kStrip: at most so many on either side
};

struct TokenizerSpec {
  // By id, in the file's alphabet (with byte-level BPE: GPT-2's printable stand-ins for bytes); ids without a token are empty.
  std::vector<std::string> tokens;
  std::vector<BpeMerge> merges;
  std::vector<AddedToken> added;
  std::vector<NormalizeStep> normalizers;
  std::vector<SplitStep> splits;
  std::vector<DecodeStep> decoders;   // none: tokens are joined by spaces
  std::vector<TokenId> before, after; // added around a text unless told not to (TemplateProcessing)
  bool byte_fallback = false, ignore_merges = false, fuse_unknown = false;
  std::string unknown;                // text of the unknown token; empty: none
  // "bos_token" → "<s>", also eos, pad, unk, …
  std::map<std::string, std::string> named;

  bool byte_level() const;
};

// GPT-2's stand-ins: byte ↔ printable character.
std::string to_byte_alphabet(std::string_view bytes);
// nullopt when a character of `text` stands for no byte.
std::optional<std::string> from_byte_alphabet(std::string_view text);

// tokenizer.json. Errors name `where`.
Result<TokenizerSpec> read_tokenizer_json(std::string_view text, std::string_view where);
// Older folders: vocab.json, merges.txt. `family` is tokenizer_config.json's tokenizer_class: Qwen2Tokenizer, GPT2Tokenizer,
// with or without "Fast".
Result<TokenizerSpec> read_vocab_and_merges(std::string_view vocab, std::string_view merges, std::string_view family, std::string_view where);
// What tokenizer_config.json, special_tokens_map.json and added_tokens.json say on top: names of special tokens, added
// tokens that are missing, whether bos and eos are put around a text.
Status add_tokenizer_config(TokenizerSpec& spec, std::string_view text, std::string_view where);

// The spec as tokenizer.json; reads back, here and in Hugging Face's library, to a tokenizer that does the same.
std::string tokenizer_json(const TokenizerSpec& spec);

}  // namespace musacoder::llm
