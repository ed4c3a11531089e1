// What is asked of the model: tasks, and the conversations about them as tokens.
//
//   MC_ASSIGN_OR_RETURN(std::vector<RlTask> tasks, read_tasks({"tasks", "more.jsonl"}));
//   MC_ASSIGN_OR_RETURN(Asker asker, Asker::open("SmolLM2-135M", {.form = "compact"}));
//   MC_ASSIGN_OR_RETURN(Conversation talk, asker.ask(tasks[0]));           // the user's first words
//   MC_ASSIGN_OR_RETURN(std::vector<TokenId> prompt, asker.encode(talk));  // up to where the answer begins
//   talk.push_back({"assistant", answer});
//   talk.push_back({"user", feedback});
//
// A row of JSON lines has `code` or `reference` (the task's Python), or `path` (a file of it, relative to the
// JSONL file); and may have `id` or `name`, `family`, and `prompt`: the user's words in place of the
// template's. Other keys are left alone. Words go through the model's chat template; where it has none a
// single message is its text, and several are joined by empty lines.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "llm/chat/chat_template.h"
#include "llm/tokenizer/tokenizer.h"
#include "rl/retry_buffer.h"

namespace musacoder::train {

struct RlTask {
  std::string id, code, family;
  std::string prompt;  // empty: the template's
};

// Files, folders of .py files, JSONL files. kInvalidArgument "file:line: ...", also for an id that stands for
// two different tasks; the same task twice is taken once.
Result<std::vector<RlTask>> read_tasks(const std::vector<std::string>& paths);
// Of everything that their order and content come from.
std::uint64_t fingerprint(const std::vector<RlTask>& tasks);

struct Message {
  std::string role, content;
};
using Conversation = std::vector<Message>;

struct AskerOptions {
  std::string form = "full", exemplar, dialect = "cuda";
  double date_s = 1767225600;
};

class Asker {
 public:
  static Result<Asker> open(const std::string& model, const AskerOptions& options);
  ~Asker();
  Asker(Asker&&) noexcept;

  Result<Conversation> ask(const RlTask& task) const;
  // Buffered Dynamic Retry's prompt (eq. 14): the task, the failed answer, what the verifier said.
  Result<Conversation> ask_again(const RlTask& task, const rl::Retry& retry) const;
  Result<std::vector<llm::TokenId>> encode(const Conversation& talk) const;
  // Whether a text would speak with the chat format's voice.
  bool has_control_text(const std::string& text) const;
  const llm::Tokenizer& tokenizer() const { return *tokenizer_; }
  // Of template and words: what makes prompts other ones.
  const std::string& version() const { return version_; }

 private:
  Asker();
  struct Words;
  AskerOptions options_;
  std::unique_ptr<Words> words_;
  std::optional<llm::Tokenizer> tokenizer_;
  std::optional<llm::ChatTemplate> chat_;
  std::string version_;
};

// An answer in the history of a conversation: without what a model thought before it.
std::string without_reasoning(const std::string& answer);

}  // namespace musacoder::train
