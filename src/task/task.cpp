#include "task/task.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "base/files.h"
#include "base/json_lines.h"

namespace musacoder::task {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::optional<int> number_at_start(std::string_view text) {
  int value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || value < 0 || end == text.data()) return std::nullopt;
  if (end != text.data() + text.size() && (std::isalnum(static_cast<unsigned char>(*end)) || *end == '.')) return std::nullopt;
  return value;
}

// "level3" or "3" → 3.
std::optional<int> level_of(std::string_view text) {
  if (text.substr(0, 5) == "level") text.remove_prefix(5);
  int value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::string canonical_id(int level, int number) { return fmt::format("level{}/{}", level, number); }

Status check_code(const std::string& code, const std::string& source) {
  if (code.empty()) return fail(Code::kInvalidArgument, "{}: the task file is empty", source);
  if (code.size() > TaskSet::kMaxCodeBytes)
    return fail(Code::kInvalidArgument, "{}: the task file has {} bytes; the limit is {}", source, code.size(),
                TaskSet::kMaxCodeBytes);
  if (code.find('\0') != std::string::npos)
    return fail(Code::kInvalidArgument, "{}: holds NUL bytes, so it is not a Python file", source);
  return ok();
}

bool looks_like_task(const std::string& code) {
  return code.find("Model") != std::string::npos && code.find("get_inputs") != std::string::npos;
}

Result<Task> task_from_file(const fs::path& path, const fs::path& root) {
  MC_ASSIGN_OR_RETURN(std::string code, base::read_file(path.string(), TaskSet::kMaxCodeBytes));
  Task task;
  task.source = path.string();
  MC_RETURN_IF_ERROR(check_code(code, task.source));
  task.code = std::move(code);
  task.name = path.stem().string();
  const fs::path relative = root.empty() ? path.filename() : path.lexically_relative(root);
  task.id = (relative.parent_path() / path.stem()).generic_string();
  const fs::path folder = fs::absolute(path).lexically_normal().parent_path();
  for (auto part = folder; part.has_filename(); part = part.parent_path()) {
    const std::string name = part.filename().string();
    if (name.rfind("level", 0) == 0)
      if (auto level = level_of(name)) {
        task.level = *level;
        break;
      }
    if (part == part.root_path()) break;
  }
  if (auto number = number_at_start(task.name)) task.number = *number;
  return task;
}

std::string text_field(const json& row, const char* key) {
  auto it = row.find(key);
  if (it == row.end()) return "";
  if (it->is_string()) return it->get<std::string>();
  if (it->is_number_integer()) return std::to_string(it->get<std::int64_t>());
  return "";
}

Result<Task> task_from_row(std::string_view line, const std::string& source) {
  auto parsed = base::parse_json(line);
  if (!parsed) return fail(Code::kInvalidArgument, "{}: not a JSON row: {}", source, parsed.error().message);
  const json& row = *parsed;
  if (!row.is_object()) return fail(Code::kInvalidArgument, "{}: the row is not a JSON object", source);
  Task task;
  task.source = source;
  for (const char* key : {"code", "reference"})
    if (auto it = row.find(key); it != row.end()) {
      if (!it->is_string()) return fail(Code::kInvalidArgument, "{}: '{}' must be the text of a Python file", source, key);
      if (task.code.empty()) task.code = it->get<std::string>();
    }
  if (task.code.empty())
    return fail(Code::kInvalidArgument, "{}: the row has neither 'code' nor 'reference'", source);
  MC_RETURN_IF_ERROR(check_code(task.code, source));
  task.name = text_field(row, "name");
  const std::string id = text_field(row, "id"), level = text_field(row, "level");
  if (!level.empty()) {
    auto value = level_of(level);
    if (!value) return fail(Code::kInvalidArgument, "{}: 'level' must be a number, not '{}'", source, level);
    task.level = *value;
  }
  if (auto number = number_at_start(id)) task.number = *number;
  else if (auto from_name = number_at_start(task.name); id.empty() && from_name) task.number = *from_name;
  if (task.level > 0 && task.number >= 0) task.id = canonical_id(task.level, task.number);
  else if (!id.empty()) task.id = id;
  else task.id = task.name;
  if (task.id.empty())
    return fail(Code::kInvalidArgument, "{}: the row has no 'name', no 'id' and no 'level' with 'id'", source);
  if (task.name.empty()) task.name = task.id;
  return task;
}

}  // namespace

Status TaskSet::add(Task task) {
  for (const Task& other : tasks_) {
    if (other.id != task.id) continue;
    if (other.code == task.code) return ok();
    return fail(Code::kInvalidArgument, "two different tasks are called '{}': {} and {}", task.id, other.source, task.source);
  }
  tasks_.push_back(std::move(task));
  return ok();
}

Result<TaskSet> TaskSet::from_jsonl(std::string_view text, const std::string& source) {
  TaskSet set;
  std::unordered_map<std::string, std::size_t> seen;  // id → index
  std::size_t line_number = 0;
  while (!text.empty()) {
    ++line_number;
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string place = fmt::format("{}:{}", source, line_number);
    if (line.size() > kMaxRowBytes)
      return fail(Code::kInvalidArgument, "{}: the row has {} bytes; the limit is {}", place, line.size(), kMaxRowBytes);
    MC_ASSIGN_OR_RETURN(Task task, task_from_row(line, place));
    if (auto known = seen.find(task.id); known != seen.end()) {
      const Task& other = set.tasks_[known->second];
      if (other.code != task.code)
        return fail(Code::kInvalidArgument, "two different tasks are called '{}': {} and {}", task.id, other.source, place);
      continue;
    }
    seen.emplace(task.id, set.tasks_.size());
    set.tasks_.push_back(std::move(task));
  }
  if (set.tasks_.empty()) return fail(Code::kInvalidArgument, "{}: holds no task", source);
  return set;
}

Result<TaskSet> TaskSet::load(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return fail(Code::kNotFound, "no task file or folder at '{}'", path);
  TaskSet set;
  if (fs::is_directory(status)) {
    std::vector<fs::path> files;
    fs::recursive_directory_iterator it(path, fs::directory_options::skip_permission_denied, error), end;
    if (error) return fail(Code::kInvalidArgument, "cannot read the folder '{}': {}", path, error.message());
    for (; it != end; it.increment(error)) {
      const std::string name = it->path().filename().string();
      if (it->is_directory(error) && (name.rfind('.', 0) == 0 || name == "__pycache__")) it.disable_recursion_pending();
      else if (it->path().extension() == ".py" && it->is_regular_file(error)) files.push_back(it->path());
      if (error) break;
    }
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) {
      auto task = task_from_file(file, path);
      if (!task) {
        if (task.error().message.find("is empty") != std::string::npos) continue;  // __init__.py and its like
        return tl::unexpected<Error>(task.error());
      }
      if (looks_like_task(task->code)) MC_RETURN_IF_ERROR(set.add(std::move(*task)));
    }
    if (set.tasks_.empty())
      return fail(Code::kInvalidArgument, "'{}' holds no .py file with a Model and get_inputs", path);
    return set;
  }
  if (!fs::is_regular_file(status)) return fail(Code::kInvalidArgument, "'{}' is not a file or folder", path);
  const std::string extension = fs::path(path).extension().string();
  if (extension == ".jsonl" || extension == ".json" || extension == ".ndjson") {
    MC_ASSIGN_OR_RETURN(std::string text, base::read_file(path, 4ull << 30));
    return from_jsonl(text, path);
  }
  if (extension != ".py")
    return fail(Code::kInvalidArgument, "'{}' is not a task: give a .py file, a folder of them, or a .jsonl file", path);
  MC_ASSIGN_OR_RETURN(Task task, task_from_file(path, {}));
  MC_RETURN_IF_ERROR(set.add(std::move(task)));
  return set;
}

const Task* TaskSet::find(std::string_view id) const {
  for (const Task& task : tasks_)
    if (task.id == id || task.source == id) return &task;
  if (const std::size_t slash = id.find('/'); slash != std::string_view::npos) {
    const auto level = level_of(id.substr(0, slash));
    const std::string_view rest = id.substr(slash + 1);
    if (level) {
      const auto number = number_at_start(rest);
      const bool bare = number && std::to_string(*number) == rest;
      for (const Task& task : tasks_)
        if (task.level == *level && (task.name == rest || (bare && task.number == *number))) return &task;
    }
  }
  const Task* found = nullptr;
  for (const Task& task : tasks_) {
    if (task.name != id) continue;
    if (found) return nullptr;
    found = &task;
  }
  return found;
}

}  // namespace musacoder::task
