#include "train/rl/tasks.h"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/hash.h"
#include "llm/checkpoint/strict_json.h"
#include "port/rename_table.h"
#include "task/prompt.h"
#include "task/task.h"

namespace musacoder::train {
namespace {

using Json = nlohmann::ordered_json;

Result<std::string> text_of(const Json& row, const char* key) {
  const auto found = row.find(key);
  if (found == row.end() || found->is_null()) return std::string();
  if (!found->is_string()) return fail(Code::kInvalidArgument, "\"{}\" must be a text", key);
  return found->get<std::string>();
}

Result<RlTask> task_of(const std::string& line, const std::string& folder) {
  MC_ASSIGN_OR_RETURN(const Json row, llm::parse_strict_json(line, "the row"));
  if (!row.is_object()) return fail(Code::kInvalidArgument, "a row is an object");
  RlTask out;
  MC_ASSIGN_OR_RETURN(out.code, text_of(row, "code"));
  if (out.code.empty()) {
    MC_ASSIGN_OR_RETURN(out.code, text_of(row, "reference"));
  }
  if (out.code.empty()) {
    MC_ASSIGN_OR_RETURN(const std::string path, text_of(row, "path"));
    if (path.empty()) return fail(Code::kInvalidArgument, "a row has \"code\", \"reference\" or \"path\"");
    MC_ASSIGN_OR_RETURN(
        out.code, base::read_file(std::filesystem::path(path).is_absolute() ? path : folder + "/" + path,
                                  task::TaskSet::kMaxCodeBytes));
  }
  if (row.contains("id") && row["id"].is_number_integer()) {
    out.id = row["id"].dump();
  } else {
    MC_ASSIGN_OR_RETURN(out.id, text_of(row, "id"));
  }
  if (out.id.empty()) {
    MC_ASSIGN_OR_RETURN(out.id, text_of(row, "name"));
  }
  if (out.id.empty()) out.id = base::sha256_hex(out.code).substr(0, 16);
  MC_ASSIGN_OR_RETURN(out.family, text_of(row, "family"));
  MC_ASSIGN_OR_RETURN(out.prompt, text_of(row, "prompt"));
  return out;
}

Result<std::vector<RlTask>> read_rows(const std::string& path) {
  MC_ASSIGN_OR_RETURN(const std::string text, base::read_file(path));
  const std::string folder = std::filesystem::absolute(path).parent_path().string();
  std::vector<RlTask> out;
  std::size_t line = 0;
  for (std::size_t from = 0; from < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    const std::string row = text.substr(from, end - from);
    from = end + 1;
    if (row.find_first_not_of(" \t\r") == std::string::npos) continue;
    auto one = task_of(row, folder);
    if (!one) return fail(one.error().code, "{}:{}: {}", path, line + 1, one.error().message);
    out.push_back(std::move(*one));
  }
  return out;
}

}  // namespace

Result<std::vector<RlTask>> read_tasks(const std::vector<std::string>& paths) {
  std::vector<RlTask> out;
  std::map<std::string, std::size_t> known;
  for (const std::string& path : paths) {
    std::vector<RlTask> some;
    if (path.ends_with(".jsonl")) {
      MC_ASSIGN_OR_RETURN(some, read_rows(path));
    } else {
      MC_ASSIGN_OR_RETURN(const task::TaskSet set, task::TaskSet::load(path));
      for (const task::Task& one : set.tasks()) some.push_back({.id = one.id, .code = one.code});
    }
    for (RlTask& one : some) {
      const auto [at, fresh] = known.emplace(one.id, out.size());
      if (fresh)
        out.push_back(std::move(one));
      else if (out[at->second].code != one.code || out[at->second].prompt != one.prompt)
        return fail(Code::kInvalidArgument, "{}: the id '{}' stands for two different tasks", path, one.id);
    }
  }
  if (out.empty()) return fail(Code::kInvalidArgument, "there are no tasks in {}", fmt::join(paths, ", "));
  return out;
}

std::uint64_t fingerprint(const std::vector<RlTask>& tasks) {
  std::uint64_t out = 0;
  for (const RlTask& one : tasks)
    for (const std::string* part : {&one.id, &one.code, &one.prompt})
      out = base::xxh3(*part, out + part->size());
  return out;
}

struct Asker::Words {
  task::Prompts prompts;
  port::RenameTable table;
};

Asker::Asker() = default;
Asker::~Asker() = default;
Asker::Asker(Asker&&) noexcept = default;

Result<Asker> Asker::open(const std::string& model, const AskerOptions& options) {
  Asker out;
  out.options_ = options;
  MC_ASSIGN_OR_RETURN(task::Prompts prompts, task::Prompts::installed());
  MC_ASSIGN_OR_RETURN(port::RenameTable table, port::RenameTable::installed());
  out.words_ = std::make_unique<Words>(Words{std::move(prompts), std::move(table)});
  MC_ASSIGN_OR_RETURN(out.tokenizer_, llm::Tokenizer::open(model));
  auto chat = llm::ChatTemplate::open(model);
  if (chat)
    out.chat_ = std::move(*chat);
  else if (chat.error().code != Code::kNotFound)
    return tl::unexpected<Error>(chat.error());
  // What cannot be filled is found now.
  MC_RETURN_IF_ERROR(out.ask({.id = "", .code = "x"}));
  out.version_ =
      base::sha256_hex(fmt::format("{}\n{}\n{}\n{}\n{}", out.words_->prompts.hash(options.form), options.form,
                                   options.exemplar, options.dialect, out.chat_ ? out.chat_->source() : ""));
  return out;
}

Result<Conversation> Asker::ask(const RlTask& task) const {
  if (!task.prompt.empty()) return Conversation{{"user", task.prompt}};
  MC_ASSIGN_OR_RETURN(std::string text, words_->prompts.fill(words_->table, {.backend = options_.dialect,
                                                                             .reference = task.code,
                                                                             .exemplar = options_.exemplar,
                                                                             .form = options_.form}));
  return Conversation{{"user", std::move(text)}};
}

Result<Conversation> Asker::ask_again(const RlTask& task, const rl::Retry& retry) const {
  MC_ASSIGN_OR_RETURN(Conversation out, ask(task));
  out.push_back({"assistant", retry.candidate});
  out.push_back({"user", retry.feedback});
  return out;
}

Result<std::vector<llm::TokenId>> Asker::encode(const Conversation& talk) const {
  if (!chat_) {
    std::string text;
    for (const Message& one : talk) text += one.content + (talk.size() > 1 ? "\n\n" : "");
    return tokenizer_->encode(text, {.specials = llm::Specials::kPlain, .template_tokens = false});
  }
  Json messages = Json::array();
  for (const Message& one : talk) messages.push_back({{"role", one.role}, {"content", one.content}});
  MC_ASSIGN_OR_RETURN(
      const auto rendered,
      chat_->render({.messages = messages.dump(-1, ' ', false, Json::error_handler_t::replace),
                     .add_generation_prompt = true,
                     .now_s = options_.date_s}));
  return tokenizer_->encode(rendered.text, {.template_tokens = false});
}

bool Asker::has_control_text(const std::string& text) const {
  if (!chat_) return false;
  const auto found = llm::find_control_text(
      *tokenizer_, Json::array({text}).dump(-1, ' ', false, Json::error_handler_t::replace));
  return !found || found->has_value();
}

std::string without_reasoning(const std::string& answer) {
  constexpr std::string_view kEnd = "</think>";
  const std::size_t end = answer.rfind(kEnd);
  if (end == std::string::npos) return answer;
  const std::size_t rest = answer.find_first_not_of(" \t\r\n", end + kEnd.size());
  return rest == std::string::npos ? "" : answer.substr(rest);
}

}  // namespace musacoder::train
