#include "generate/attempt_rows.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/hash.h"

namespace musacoder::generate {
namespace {

using nlohmann::json;

std::string sample_key(const std::string& task_code, int sample) {
  base::Sha256 hash;
  hash.field(task_code);
  hash.field(std::to_string(sample));
  return hash.hex();
}

}  // namespace

json attempt_json(const Attempt& attempt, const std::string& family) {
  json row = json::object();
  if (attempt.verdict) row = judge::to_json(*attempt.verdict);
  json messages = json::array();
  for (const auto& message : attempt.messages)
    messages.push_back({{"role", message.role}, {"content", message.content}});
  row.update(
      {{"task", attempt.task->id},
       {"family", family},
       {"reference", attempt.task->code},
       {"candidate", attempt.answer.text},
       {"sample", attempt.sample},
       {"turn", attempt.turn},
       {"seed", attempt.seed},
       {"model", attempt.model},
       {"last", attempt.last},
       {"messages", std::move(messages)},
       {"finish", attempt.answer.finish},
       {"prompt_tokens", attempt.usage.prompt_tokens},
       {"tokens", attempt.usage.completion_tokens},
       {"ask_s", attempt.ask_s},
       {"judge_s", attempt.judge_s},
       {"repeated", attempt.repeated},
       {"row_key", sample_key(attempt.task->code, attempt.sample) + fmt::format("-{}", attempt.turn)}});
  if (attempt.task->level > 0) row["level"] = std::to_string(attempt.task->level);
  if (!attempt.task->name.empty()) row["name"] = attempt.task->name;
  if (!attempt.error.empty()) row["error"] = attempt.error;
  return row;
}

Status AttemptFile::lock() {
  fd_.reset(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!fd_) return fail(base::code_of_errno(errno), "cannot write {}: {}", path_, std::strerror(errno));
  if (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0)
    return fail(Code::kUnavailable, "{} is being written by another process", path_);
  return ok();
}

Result<std::unique_ptr<AttemptFile>> AttemptFile::open(const std::string& path) {
  std::unique_ptr<AttemptFile> file(new AttemptFile());
  file->path_ = path;
  MC_RETURN_IF_ERROR(file->lock());
  // First who has ended, then the rows of those.
  std::vector<std::string> lines, keys;
  std::ifstream in(path, std::ios::binary);
  bool torn = false;
  for (std::string line; std::getline(in, line);) {
    if (in.eof()) {
      torn = true;
      break;
    }
    const json row = json::parse(line, nullptr, false);
    std::string key;
    if (row.is_object() && row.contains("reference") && row["reference"].is_string() &&
        row.contains("sample") && row["sample"].is_number_integer())
      key = sample_key(row["reference"].get<std::string>(), row["sample"].get<int>());
    // An answer that did not come, or was not judged in time, is asked for again.
    if (!key.empty() && row.value("last", false) && !row.contains("error")) file->finished_.insert(key);
    lines.push_back(std::move(line));
    keys.push_back(std::move(key));
  }
  std::string kept;
  bool dropped = torn;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (!keys[i].empty() && file->finished_.count(keys[i]))
      kept += lines[i] + "\n";
    else
      dropped = true;
  }
  if (dropped) {
    MC_RETURN_IF_ERROR(base::write_file_atomic(path, kept));
    MC_RETURN_IF_ERROR(file->lock());
  }
  return file;
}

bool AttemptFile::finished(const std::string& task_code, int sample) const {
  return finished_.count(sample_key(task_code, sample)) > 0;
}

Status AttemptFile::add(const Attempt& attempt, const std::string& family) {
  const std::string line =
      attempt_json(attempt, family).dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  std::lock_guard lock(mutex_);
  return base::write_all(fd_.get(), line);
}

}  // namespace musacoder::generate
