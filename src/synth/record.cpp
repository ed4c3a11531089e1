#include "synth/record.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace musacoder::synth {
namespace {

using json = nlohmann::ordered_json;

bool is_hash(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Result<std::string> text_of(const json& object, const char* key, bool needed) {
  auto it = object.find(key);
  if (it == object.end() || it->is_null()) {
    if (needed) return fail(Code::kInvalidArgument, "the row has no `{}`", key);
    return std::string();
  }
  if (!it->is_string()) return fail(Code::kInvalidArgument, "`{}` is no text", key);
  return it->get<std::string>();
}

// "VERDICT: CORRECT" or "VERDICT: INCORRECT" as the last line that is not empty.
bool ends_with_verdict(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  const std::size_t line = text.rfind('\n');
  const std::string_view last = line == std::string_view::npos ? text : text.substr(line + 1);
  return last == "VERDICT: CORRECT" || last == "VERDICT: INCORRECT";
}

}  // namespace

const std::vector<std::string>& kinds() {
  static const std::vector<std::string> all = {"generate",        "derive",     "repair_compile", "repair_runtime", "repair_values", "repair_legality",
                                               "multi_turn", "review",         "profile",        "rewrite",       "qa",              "general"};
  return all;
}

bool answers_with_code(std::string_view kind) {
  return kind != "review" && kind != "profile" && kind != "qa" && kind != "general";
}

std::string row_line(const Row& row) {
  json line;
  line["messages"] = json::array();
  for (const Message& message : row.messages) line["messages"].push_back({{"role", message.role}, {"content", message.content}});
  line["family"] = row.family;
  if (!row.group.empty()) line["group"] = row.group;
  line["kind"] = row.kind;
  line["stage"] = row.stage;
  line["task"] = row.task;
  line["ops"] = row.ops;
  line["source"] = {{"teacher", row.source.teacher}, {"schedule", row.source.schedule}, {"from", row.source.from}, {"seed", row.source.seed}};
  line["verdict"] = {{"status", row.verdict.status}, {"candidate", row.verdict.candidate}, {"backend", row.verdict.backend}};
  line["verdict"]["reward"] = row.verdict.reward ? json(*row.verdict.reward) : json(nullptr);
  return line.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<Row> row_from_line(std::string_view text) {
  const json line = json::parse(text, nullptr, false);
  if (!line.is_object()) return fail(Code::kInvalidArgument, "the line is no JSON object");
  Row row;
  const auto messages = line.find("messages");
  if (messages == line.end() || !messages->is_array()) return fail(Code::kInvalidArgument, "the row has no list `messages`");
  for (const json& message : *messages) {
    if (!message.is_object()) return fail(Code::kInvalidArgument, "a message is no object");
    MC_ASSIGN_OR_RETURN(std::string role, text_of(message, "role", true));
    MC_ASSIGN_OR_RETURN(std::string content, text_of(message, "content", true));
    row.messages.push_back({std::move(role), std::move(content)});
  }
  MC_ASSIGN_OR_RETURN(row.family, text_of(line, "family", true));
  MC_ASSIGN_OR_RETURN(row.group, text_of(line, "group", false));
  MC_ASSIGN_OR_RETURN(row.kind, text_of(line, "kind", true));
  MC_ASSIGN_OR_RETURN(row.task, text_of(line, "task", false));
  if (auto stage = line.find("stage"); stage != line.end()) {
    if (!stage->is_number_integer()) return fail(Code::kInvalidArgument, "`stage` is no integer");
    row.stage = stage->get<int>();
  }
  if (auto ops = line.find("ops"); ops != line.end()) {
    if (!ops->is_array()) return fail(Code::kInvalidArgument, "`ops` is no list");
    for (const json& op : *ops) {
      if (!op.is_string()) return fail(Code::kInvalidArgument, "`ops` holds something else than texts");
      row.ops.push_back(op.get<std::string>());
    }
  }
  if (auto source = line.find("source"); source != line.end() && source->is_object()) {
    MC_ASSIGN_OR_RETURN(row.source.teacher, text_of(*source, "teacher", false));
    MC_ASSIGN_OR_RETURN(row.source.schedule, text_of(*source, "schedule", false));
    MC_ASSIGN_OR_RETURN(row.source.from, text_of(*source, "from", false));
    if (auto seed = source->find("seed"); seed != source->end() && seed->is_number_unsigned()) row.source.seed = seed->get<std::uint64_t>();
  }
  if (auto verdict = line.find("verdict"); verdict != line.end() && verdict->is_object()) {
    MC_ASSIGN_OR_RETURN(row.verdict.status, text_of(*verdict, "status", false));
    MC_ASSIGN_OR_RETURN(row.verdict.candidate, text_of(*verdict, "candidate", false));
    MC_ASSIGN_OR_RETURN(row.verdict.backend, text_of(*verdict, "backend", false));
    if (auto reward = verdict->find("reward"); reward != verdict->end() && reward->is_number()) row.verdict.reward = reward->get<double>();
  }
  return row;
}

std::string control_word(std::string_view text) {
  static constexpr std::array<std::string_view, 8> kWords = {"<s>",   "</s>",    "[INST]", "[/INST]", "<start_of_turn>", "<end_of_turn>",
                                                             "<bos>", "<eos>"};
  for (std::string_view word : kWords)
    if (text.find(word) != std::string_view::npos) return std::string(word);
  for (std::size_t at = text.find("<|"); at != std::string_view::npos; at = text.find("<|", at + 1)) {
    std::size_t end = at + 2;
    while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_')) ++end;
    if (end > at + 2 && text.substr(end, 2) == "|>") return std::string(text.substr(at, end + 2 - at));
  }
  return "";
}

Status check_row(const Row& row) {
  if (std::find(kinds().begin(), kinds().end(), row.kind) == kinds().end())
    return fail(Code::kInvalidArgument, "'{}' is no kind of row", row.kind);
  if (row.family.empty()) return fail(Code::kInvalidArgument, "the row has no family");
  if (row.messages.size() < 2) return fail(Code::kInvalidArgument, "a row has at least a question and an answer");
  for (std::size_t i = 0; i < row.messages.size(); ++i) {
    const Message& message = row.messages[i];
    const bool system = message.role == "system";
    if (!system && message.role != "user" && message.role != "assistant")
      return fail(Code::kInvalidArgument, "message {} has the role '{}'; system, user and assistant are known", i, message.role);
    if (system && i != 0) return fail(Code::kInvalidArgument, "message {} is a system message; only the first may be one", i);
    if (i > 0 && message.role == row.messages[i - 1].role)
      return fail(Code::kInvalidArgument, "messages {} and {} are both the {}'s", i - 1, i, message.role);
    if (message.content.find_first_not_of(" \t\r\n") == std::string::npos)
      return fail(Code::kInvalidArgument, "message {} says nothing", i);
    if (const std::string word = control_word(message.content); !word.empty())
      return fail(Code::kInvalidArgument, "message {} holds the chat format's own word {}", i, word);
  }
  if (row.messages.back().role != "assistant") return fail(Code::kInvalidArgument, "the last message is not the assistant's");
  if (row.stage < 0 || row.stage > 3) return fail(Code::kInvalidArgument, "stage {} is not 0 to 3", row.stage);
  const bool of_task = row.kind != "qa" && row.kind != "general";
  if ((of_task || !row.task.empty()) && !is_hash(row.task)) return fail(Code::kInvalidArgument, "`task` is no SHA-256");
  if (of_task && !is_hash(row.verdict.candidate)) return fail(Code::kInvalidArgument, "`verdict.candidate` is no SHA-256");
  if (answers_with_code(row.kind) && row.verdict.status != "ok")
    return fail(Code::kInvalidArgument, "a row of kind {} teaches code with the verdict '{}'", row.kind, row.verdict.status);
  if (row.kind == "review" && !ends_with_verdict(row.messages.back().content))
    return fail(Code::kInvalidArgument, "a review does not end with VERDICT: CORRECT or VERDICT: INCORRECT");
  return ok();
}

}  // namespace musacoder::synth
