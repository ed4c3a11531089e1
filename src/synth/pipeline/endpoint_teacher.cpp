#include "synth/pipeline/endpoint_teacher.h"

namespace musacoder::synth {

Reply split_reply(const std::string& reply) {
  const std::size_t thought = reply.rfind("</think>");
  const std::string text = thought == std::string::npos ? reply : reply.substr(thought + 8);
  const std::size_t open = text.rfind("```python");
  if (open == std::string::npos) return {.text = text, .file = {}};
  const std::size_t begin = text.find('\n', open), end = begin == std::string::npos ? begin : text.find("\n```", begin);
  if (end == std::string::npos) return {.text = text, .file = {}};
  std::string before = text.substr(0, open);
  const std::size_t first = before.find_first_not_of(" \n"), last = before.find_last_not_of(" \n");
  return {.text = first == std::string::npos ? "" : before.substr(first, last - first + 1), .file = text.substr(begin + 1, end - begin)};
}

Result<std::string> EndpointTeacher::prompt(const TaskItem& task) const {
  return prompts_.fill(table_, {.backend = "cuda", .reference = task.file, .exemplar = options_.exemplar, .form = options_.form});
}

Result<std::string> EndpointTeacher::next(const TaskItem& task, const std::vector<Said>& so_far, std::uint64_t seed) {
  MC_ASSIGN_OR_RETURN(std::string ask, prompt(task));
  chat::Request asked{.messages = {{"user", std::move(ask)}}};
  for (const Said& said : so_far) {
    asked.messages.push_back({"assistant", "```python\n" + said.file + "\n```"});
    asked.messages.push_back({"user", said.feedback});
  }
  asked.sampling = {.n = 1, .temperature = options_.temperature, .top_p = options_.top_p, .max_tokens = options_.max_tokens, .seed = seed};
  MC_ASSIGN_OR_RETURN(const chat::Reply reply, model_.ask(asked));
  return reply.answers.empty() ? std::string() : split_reply(reply.answers[0].text).file;
}

Result<std::vector<Answer>> EndpointTeacher::answer(const TaskItem& task, const AnswerRequest& request) {
  MC_ASSIGN_OR_RETURN(std::string ask, prompt(task));
  if (request.derive) {
    MC_ASSIGN_OR_RETURN(std::string steps, task::fill_template("derive", {}));
    ask += "\n" + steps;
  }
  chat::Request asked{.messages = {{"user", std::move(ask)}}};
  asked.sampling = {.n = request.most, .temperature = options_.temperature, .top_p = options_.top_p, .max_tokens = options_.max_tokens, .seed = request.seed};
  MC_ASSIGN_OR_RETURN(chat::Reply reply, model_.ask(asked));
  std::vector<Answer> answers;
  for (const chat::Answer& answer : reply.answers) {
    Reply parts = split_reply(answer.text);
    if (parts.file.empty()) continue;
    answers.push_back({.file = std::move(parts.file), .schedule = "model", .kernels = {}, .derivation = request.derive ? std::move(parts.text) : ""});
  }
  if (answers.empty()) return fail(Code::kUnsupported, "{} gave no Python block", model_.describe());
  return answers;
}

}  // namespace musacoder::synth
