#include "cli/bench_samples.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "base/files.h"
#include "base/json_lines.h"
#include "judge/rows.h"

namespace musacoder::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::uint64_t kMaxCandidateBytes = 64u << 20;

// A value that names something: text, or a whole number; "" when it is absent or anything else.
std::string name_in(const json& row, const char* key) {
  auto it = row.find(key);
  if (it == row.end()) return "";
  if (it->is_string()) return it->get<std::string>();
  return it->is_number_integer() ? it->dump() : "";
}

std::string first_name(const json& row, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (std::string name = name_in(row, key); !name.empty()) return name;
  return "";
}

struct TaskName {
  std::string id;    // what the suite is asked for
  std::string name;  // what the row calls the task beside that, to see whether they agree
};

std::string without_suffix(std::string name) {
  if (name.ends_with(".py")) name.resize(name.size() - 3);
  return name;
}

Result<TaskName> task_name(const json& row) {
  const std::string name = without_suffix(name_in(row, "name"));
  if (std::string id = without_suffix(first_name(row, {"task", "task_id"})); !id.empty())
    return TaskName{id, name};
  const std::string level = name_in(row, "level"), id = without_suffix(first_name(row, {"id", "problem_id"}));
  if (!level.empty() && !id.empty() && id.find('/') == std::string::npos)
    return TaskName{level + "/" + id, name};
  if (!id.empty()) return TaskName{id, name};
  if (!level.empty() && !name.empty()) return TaskName{level + "/" + name, ""};
  if (!name.empty()) return TaskName{name, ""};
  return fail(Code::kInvalidArgument,
              "names no task: give `task`, such as \"level1/19\", or `level` and `id`");
}

// KernelBench's names begin with the task's number; other names are labels of the row's maker.
bool is_task_name(const std::string& name) {
  return !name.empty() && name[0] >= '0' && name[0] <= '9' && name.find('_') != std::string::npos;
}

// The text of `candidate` or `answer` in an object, or of the value itself.
Result<std::string> candidate_in(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object())
    for (const char* key : {"candidate", "answer"})
      if (auto it = value.find(key); it != value.end() && it->is_string()) return it->get<std::string>();
  return fail(Code::kInvalidArgument, "is neither text nor an object with `candidate` or `answer`");
}

Result<std::vector<std::string>> candidates_in(const json& row) {
  std::vector<const char*> found;
  for (const char* key : {"candidate", "answer", "samples"})
    if (row.contains(key)) found.push_back(key);
  if (found.size() != 1)
    return fail(Code::kInvalidArgument, "needs one of `candidate`, `answer` and `samples`, and has {}",
                found.empty() ? "none" : fmt::format("`{}`", fmt::join(found, "`, `")));
  const json& value = row[found[0]];
  if (std::strcmp(found[0], "samples") != 0) {
    if (!value.is_string()) return fail(Code::kInvalidArgument, "`{}` is no text", found[0]);
    return std::vector<std::string>{value.get<std::string>()};
  }
  if (!value.is_array() || value.empty())
    return fail(Code::kInvalidArgument, "`samples` is no list, or an empty one");
  std::vector<std::string> texts;
  for (const json& item : value) {
    auto text = candidate_in(item);
    if (!text) return fail(Code::kInvalidArgument, "`samples`[{}] {}", texts.size(), text.error().message);
    texts.push_back(std::move(*text));
  }
  return texts;
}

class Reader {
 public:
  explicit Reader(const Suite& suite) : suite_(suite) {}

  void refuse(const std::string& source, const std::string& reason) {
    read_.refused.push_back({source, reason});
  }

  // The suite's task, or null after the sample was counted or refused.
  const task::Task* task(const std::string& id, const std::string& source) {
    const task::Task* task = suite_.find(id);
    if (task) return task;
    if (suite_.has_at_other_level(id))
      ++read_.other_levels;
    else
      refuse(source, fmt::format("the suite has no task '{}'", id.substr(0, 120)));
    return nullptr;
  }

  void row(const std::string& line, const std::string& source) {
    if (line.size() > judge::kMaxRowBytes)
      return refuse(source, fmt::format("{} bytes in one line", line.size()));
    auto row = base::parse_json(line);
    if (!row) return refuse(source, row.error().message);
    if (!row->is_object()) return refuse(source, "is no JSON object");
    auto name = task_name(*row);
    if (!name) return refuse(source, name.error().message);
    auto candidates = candidates_in(*row);
    if (!candidates) return refuse(source, candidates.error().message);
    const task::Task* found = task(name->id, source);
    if (!found) return;
    if (is_task_name(name->name) && is_task_name(found->name) && name->name != found->name)
      return refuse(source, fmt::format("{} is {} in the suite, not {}", found->id, found->name,
                                        name->name.substr(0, 120)));
    if (auto it = row->find("reference"); it != row->end() && it->is_string() && *it != found->code)
      ++read_.other_references;
    for (std::string& text : *candidates)
      add({.task = found,
           .index = next_[found]++,
           .candidate = std::move(text),
           .candidate_name = "",
           .source = source});
  }

  void add(BenchSample sample) { read_.samples.push_back(std::move(sample)); }
  BenchSamples take() { return std::move(read_); }

 private:
  const Suite& suite_;
  BenchSamples read_;
  std::map<const task::Task*, int> next_;
};

struct KernelFile {
  int level = 0, problem = 0, sample = 0;
};

// level_<L>_problem_<P>_sample_<S>_kernel.py
std::optional<KernelFile> kernel_file(std::string_view name) {
  KernelFile file;
  for (const auto& [before, number] : {std::pair<std::string_view, int*>{"level_", &file.level},
                                       {"_problem_", &file.problem},
                                       {"_sample_", &file.sample}}) {
    if (!name.starts_with(before)) return std::nullopt;
    name.remove_prefix(before.size());
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), *number);
    if (error != std::errc() || *number < 0) return std::nullopt;
    name.remove_prefix(static_cast<std::size_t>(end - name.data()));
  }
  if (name != "_kernel.py") return std::nullopt;
  return file;
}

Result<BenchSamples> read_folder(const std::string& path, const Suite& suite) {
  std::map<std::tuple<int, int, int>, fs::path> files;
  Reader reader(suite);
  std::error_code error;
  fs::directory_iterator it(path, fs::directory_options::skip_permission_denied, error), end;
  for (; !error && it != end; it.increment(error)) {
    const fs::path& file = it->path();
    const std::string name = file.filename().string();
    if (auto parsed = kernel_file(name)) {
      auto [entry, fresh] = files.try_emplace({parsed->level, parsed->problem, parsed->sample}, file);
      if (!fresh)
        reader.refuse(file.string(), fmt::format("the same sample as {}", entry->second.filename().string()));
    } else if (file.extension() == ".py") {
      reader.refuse(file.string(), "is not called level_<L>_problem_<P>_sample_<S>_kernel.py");
    }
  }
  if (error) return fail(Code::kNotFound, "cannot read the folder {}: {}", path, error.message());
  if (files.empty())
    return fail(
        Code::kInvalidArgument,
        "{} holds no file called level_<L>_problem_<P>_sample_<S>_kernel.py; give the folder of one run",
        path);
  for (const auto& [numbers, file] : files) {
    const auto [level, problem, sample] = numbers;
    const task::Task* task = reader.task(fmt::format("level{}/{}", level, problem), file.string());
    if (!task) continue;
    auto text = base::read_file(file.string(), kMaxCandidateBytes);
    if (!text) {
      reader.refuse(file.string(), text.error().message);
      continue;
    }
    reader.add({.task = task,
                .index = sample,
                .candidate = std::move(*text),
                .candidate_name = file.filename().string(),
                .source = file.string()});
  }
  return reader.take();
}

}  // namespace

BenchSamples read_sample_rows(std::istream& in, const std::string& source, const Suite& suite) {
  Reader reader(suite);
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number)
    if (line.find_first_not_of(" \t\r") != std::string::npos)
      reader.row(line, fmt::format("{}:{}", source, number));
  return reader.take();
}

Result<BenchSamples> read_samples(const std::string& path, const Suite& suite) {
  if (base::is_directory(path)) return read_folder(path, suite);
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail(Code::kNotFound, "cannot read {}: {}", path, std::strerror(errno));
  return read_sample_rows(in, path, suite);
}

std::string batch_row(const BenchSample& sample) {
  json row = {{"task_id", sample.task->id},
              {"name", sample.task->name},
              {"sample", sample.index},
              {"reference", sample.task->code},
              {"candidate", sample.candidate}};
  if (sample.task->level > 0) row["level"] = sample.task->level;
  if (!sample.candidate_name.empty()) row["candidate_name"] = sample.candidate_name;
  return row.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace musacoder::cli
