// Training examples: JSON lines into tokens, with the part of each that a loss is taken on.
//
//   MC_ASSIGN_OR_RETURN(ExampleReader reader, ExampleReader::open("Qwen3-0.6B", {.length = 4096}));
//   MC_ASSIGN_OR_RETURN(Dataset data, read_dataset(reader, {"chat.jsonl", "docs.jsonl"}));
//   data.tokens_of(7);              // the eighth example's tokens
//   data.examples[7].loss_from;     // the first that is predicted with a loss
//
// A row is an object with one of
//   "messages"              a conversation that ends with the assistant, through the model's chat template.
//   Reasoning
//                           of earlier answers is removed (MusaCoder paper, section 4.2.3); the loss is on
//                           the last answer.
//   "prompt", "completion"  both texts or both lists of messages: the same, with the completion behind the
//   prompt "text"                  as it is, for a loss on all of it; what is longer than `length` becomes
//   several examples
// and, with any of them, "family" (for the mixture; else the file's name without ending), "group" (of the
// rows of one group an epoch takes one, at random), "tools" and "chat_template_kwargs" (the template's).
// Other keys are left alone.
//
// The prompt is tokenised by itself, as it will be when the model is asked; what the template adds for an
// answer
// (<|im_start|>assistant) belongs to it. An answer ends with its end token; white space that the template
// puts behind is left out. Errors: kInvalidArgument "file:line: ...". Thread safety: const.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "llm/chat/chat_template.h"
#include "llm/tokenizer/tokenizer.h"

namespace musacoder::train {

enum class TooLong { kDrop, kError, kCut };

struct ReaderOptions {
  std::int64_t length = 2048;
  TooLong too_long = TooLong::kDrop;
  bool loss_on_all = false;
  bool allow_control_text = false;
  double date_s = 1767225600;  // for templates that write the date
};

struct Example {
  std::uint64_t first = 0;  // in Dataset::tokens
  std::uint32_t length = 0;
  std::uint32_t loss_from = 1, loss_to = 0;  // tokens that are predicted with a loss
  std::uint32_t family = 0;                  // in Dataset::families
  std::uint64_t group = 0;                   // 0: none. (No padding: fingerprint() reads the bytes.)
};

struct Dataset {
  std::vector<llm::TokenId> tokens;
  std::vector<Example> examples;
  std::vector<std::string> families;
  std::uint64_t rows = 0, dropped = 0, cut = 0,
                split = 0;  // rows read; examples left out, cut; texts in parts
  std::span<const llm::TokenId> tokens_of(std::size_t example) const {
    return {tokens.data() + examples[example].first, examples[example].length};
  }
  // Of everything that the order and the content of training come from.
  std::uint64_t fingerprint() const;
};

// One row's tokens, before it has a place in a data set.
struct ReadExample {
  std::vector<llm::TokenId> tokens;
  std::uint32_t loss_from = 1, loss_to = 0;
};
struct ReadRow {
  std::vector<ReadExample> examples;  // several of a long text; none of a row that is too long
  std::string family, group;
  bool dropped = false, cut = false;
};

class ExampleReader {
 public:
  // A model without a chat template reads "text" and plain "prompt" and "completion" only.
  static Result<ExampleReader> open(const std::string& model, const ReaderOptions& options);
  // Errors without a place; read_dataset() adds it.
  Result<ReadRow> read(std::string_view line) const;
  const llm::Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  struct Parts {
    std::string prompt, answer;
    bool templated = false;
  };
  Result<Parts> render(const std::string& messages, const std::string& tools,
                       const std::string& variables) const;
  Result<ReadExample> encode(const Parts& parts) const;
  Result<std::vector<ReadExample>> encode_text(const std::string& text) const;
  ReaderOptions options_;
  std::optional<llm::Tokenizer> tokenizer_;
  std::optional<llm::ChatTemplate> chat_;
  std::string no_chat_;  // why there is none
  std::optional<llm::TokenId> end_;
};

// On `threads` threads; 0: one a core.
Result<Dataset> read_dataset(const ExampleReader& reader, const std::vector<std::string>& files,
                             int threads = 0);

}  // namespace musacoder::train
