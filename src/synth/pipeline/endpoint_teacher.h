// A teacher that asks a language model, behind the interface of the programmatic one.
//
//   EndpointTeacher teacher(*model, prompts, table, {.temperature = 0.8});
//   teacher.answer({task_file}, {.seed = 7, .most = 4, .derive = true});
//
// Retries, rate limits and the cache of replies are the ChatModel's (src/chat). Answers without a Python block are left out; what the others
// are worth MooreEval says.
#pragma once

#include "chat/chat_model.h"
#include "port/port.h"
#include "synth/teacher/teacher.h"
#include "task/prompt.h"

namespace musacoder::synth {

struct EndpointTeacherOptions {
  double temperature = 0.8, top_p = 0.95;
  int max_tokens = 8192;
  std::string form = "full", exemplar = "add";  // of the prompt (task/prompt.h)
};

class EndpointTeacher : public Teacher {
 public:
  EndpointTeacher(chat::ChatModel& model, const task::Prompts& prompts, const port::RenameTable& table, EndpointTeacherOptions options)
      : model_(model), prompts_(prompts), table_(table), options_(std::move(options)) {}
  std::string name() const override { return model_.describe(); }
  // Errors: those of ChatModel::ask(); kUnsupported where no answer holds a Python block.
  Result<std::vector<Answer>> answer(const TaskItem& task, const AnswerRequest& request) override;
  bool converses() const override { return true; }
  Result<std::string> next(const TaskItem& task, const std::vector<Said>& so_far, std::uint64_t seed) override;

 private:
  Result<std::string> prompt(const TaskItem& task) const;
  chat::ChatModel& model_;
  const task::Prompts& prompts_;
  const port::RenameTable& table_;
  EndpointTeacherOptions options_;
};

// The last fenced Python block of a reply (behind its thinking), and what stands before it. Empty file: there is none.
struct Reply {
  std::string text, file;
};
Reply split_reply(const std::string& reply);

}  // namespace musacoder::synth
