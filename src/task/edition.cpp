#include "task/edition.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/files.h"
#include "base/hash.h"

namespace musacoder::task {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

std::string dump(const json& value, int indent = -1) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

// A path below the edition's folder, from what a task set calls the task.
std::string file_of(const Task& task) {
  if (task.level > 0 && task.number >= 0) {
    const std::string number = std::to_string(task.number);
    const bool numbered = task.name == number || task.name.starts_with(number + "_");
    return fmt::format("level{}/{}.py", task.level, numbered ? task.name : number + "_" + task.name);
  }
  return task.id + ".py";
}

bool is_safe(const std::string& file) {
  const fs::path path = fs::path(file).lexically_normal();
  return path.is_relative() && !path.empty() && *path.begin() != "..";
}

json hashes(const Edition& edition) {
  json tasks = json::array();
  for (const EditionTask& task : edition.tasks)
    tasks.push_back({{"id", task.id},
                     {"name", task.name},
                     {"level", task.level},
                     {"file", task.file},
                     {"sha256", base::sha256_hex(task.code)},
                     {"source_sha256", task.source_sha256},
                     {"prompt_sha256", base::sha256_hex(task.prompt)}});
  return tasks;
}

}  // namespace

Result<Edition> make_edition(const port::RenameTable& table, const Prompts& prompts, const TaskSet& set,
                             const EditionOptions& options) {
  const bool has_levels =
      std::any_of(set.tasks().begin(), set.tasks().end(), [](const Task& task) { return task.level > 0; });
  const std::vector<int> levels =
      options.levels.empty() && has_levels ? std::vector<int>{1, 2, 3} : options.levels;
  Edition edition{.suite = has_levels ? "musa-kernelbench" : "musa",
                  .exemplar = options.exemplar,
                  .tasks = {},
                  .exemplars = {},
                  .tool = options.tool,
                  .tables = table.hash(),
                  .prompts = prompts.hash(),
                  .source_sha256 = {}};

  std::vector<const Task*> taken;
  for (const Task& task : set.tasks())
    if (levels.empty() || std::find(levels.begin(), levels.end(), task.level) != levels.end())
      taken.push_back(&task);
  if (taken.empty())
    return fail(Code::kInvalidArgument, "there is no task of level {}", fmt::join(levels, ", "));
  std::sort(taken.begin(), taken.end(), [](const Task* a, const Task* b) {
    return std::tie(a->level, a->number, a->id) < std::tie(b->level, b->number, b->id);
  });

  base::Sha256 source;
  std::set<std::string> files;
  for (const Task* from : taken) {
    EditionTask task{.id = from->id,
                     .name = from->name,
                     .file = file_of(*from),
                     .level = from->level,
                     .number = from->number,
                     .code = {},
                     .prompt = {},
                     .source_sha256 = base::sha256_hex(from->code)};
    if (!is_safe(task.file))
      return fail(Code::kInvalidArgument, "{}: '{}' cannot be a file's name", from->source, from->id);
    if (!files.insert(task.file).second)
      return fail(Code::kInvalidArgument, "{}: another task is written to {} already", from->source,
                  task.file);
    MC_ASSIGN_OR_RETURN(task.code, code_for(table, from->code, "musa"));
    MC_ASSIGN_OR_RETURN(
        task.prompt,
        prompts.fill(table, {.backend = "musa", .reference = from->code, .exemplar = options.exemplar}));
    source.field(from->id);
    source.field(from->code);
    edition.tasks.push_back(std::move(task));
  }
  edition.source_sha256 = source.hex();
  for (const Exemplar& exemplar : prompts.exemplars()) {
    MC_ASSIGN_OR_RETURN(Exemplar musa, prompts.exemplar(table, exemplar.name, "musa"));
    edition.exemplars.push_back({std::move(musa)});
  }
  return edition;
}

std::string manifest_of(const Edition& edition) {
  std::map<std::string, int> count;
  for (const EditionTask& task : edition.tasks) ++count[task.level > 0 ? std::to_string(task.level) : "none"];
  json exemplars = json::array();
  for (const EditionExemplar& exemplar : edition.exemplars)
    exemplars.push_back({{"name", exemplar.musa.name},
                         {"task_sha256", base::sha256_hex(exemplar.musa.task)},
                         {"answer_sha256", base::sha256_hex(exemplar.musa.answer)},
                         {"status", exemplar.status}});
  const json manifest{{"version", 1},
                      {"suite", edition.suite},
                      {"backend", "musa"},
                      {"device", "musa"},
                      {"made_by", edition.tool},
                      {"tables_sha256", edition.tables},
                      {"prompts_sha256", edition.prompts},
                      {"source_sha256", edition.source_sha256},
                      {"tasks_by_level", count},
                      {"one_shot", edition.exemplar.empty() ? json(nullptr) : json(edition.exemplar)},
                      {"exemplars", std::move(exemplars)},
                      {"tasks", hashes(edition)}};
  return dump(manifest, 2) + "\n";
}

std::string task_rows(const Edition& edition) {
  std::string rows;
  for (const EditionTask& task : edition.tasks) {
    json row{{"suite", edition.suite}, {"backend", "musa"}, {"device", "musa"}};
    if (task.level > 0) row["level"] = task.level;
    if (task.level > 0 && task.number >= 0)
      row["id"] = task.number;
    else
      row["id"] = task.id;
    row["name"] = task.name;
    row["code"] = task.code;
    rows += dump(row) + "\n";
  }
  return rows;
}

std::string prompt_rows(const Edition& edition) {
  std::string rows;
  for (const EditionTask& task : edition.tasks)
    rows += dump(json{{"task", task.id}, {"backend", "musa"}, {"prompt", task.prompt}}) + "\n";
  return rows;
}

Status write_edition(const Edition& edition, const std::string& out, bool force) {
  std::vector<base::FolderFile> files = {{"manifest.json", manifest_of(edition)},
                                         {"tasks.jsonl", task_rows(edition)},
                                         {"prompts.jsonl", prompt_rows(edition)}};
  for (const EditionTask& task : edition.tasks) files.push_back({task.file, task.code});
  for (const EditionExemplar& exemplar : edition.exemplars) {
    files.push_back({"exemplars/" + exemplar.musa.name + "/task.py", exemplar.musa.task});
    files.push_back({"exemplars/" + exemplar.musa.name + "/answer.py", exemplar.musa.answer});
  }
  return base::write_folder(out, files, force);
}

}  // namespace musacoder::task
