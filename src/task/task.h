// Tasks: PyTorch references in KernelBench's format (a Python file with Model, get_inputs and get_init_inputs).
//
//   MC_ASSIGN_OR_RETURN(TaskSet set, TaskSet::load("kernelbench.jsonl"));
//   const Task* relu = set.find("level1/19");           // also "1/19", "level1/19_ReLU", "19_ReLU"
//
// What is loaded is text; running it is the reference runner's business (task/reference_client.h).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace musacoder::task {

struct Task {
  std::string id;        // "level1/19" where a level and a number are known, else the name or the path without .py
  std::string name;      // "19_ReLU"
  int level = 0;         // 0: none
  int number = -1;       // within the level; -1: none
  std::string code;      // the Python file
  std::string source;    // "tasks/level1/19_ReLU.py", "kernelbench.jsonl:19"
};

class TaskSet {
 public:
  // Largest Python file and largest JSONL row that are taken, in bytes.
  static constexpr std::size_t kMaxCodeBytes = 4u << 20;
  static constexpr std::size_t kMaxRowBytes = 64u << 20;

  // A .py file (one task), a folder (every .py file under it that has a Model and get_inputs, in order of path; a folder
  // called levelN sets the level), or a .jsonl file with a row a task: `code` or `reference`, and at least one of `name`,
  // `id` (number or text), `level` with `id`. Rows that repeat a task with the same code are taken once.
  // Errors: kNotFound; kInvalidArgument with path and line for what is not a task file, a malformed row, a row without
  // code or id, too long a row, or an id that stands for two different tasks.
  static Result<TaskSet> load(const std::string& path);

  // The same from memory, for rows that come from elsewhere; `source` stands in for the path in messages.
  static Result<TaskSet> from_jsonl(std::string_view text, const std::string& source);

  const std::vector<Task>& tasks() const { return tasks_; }

  // By id, by level and number ("level1/19", "1/19", "level1/19_ReLU"), by path, or by a name that only one task has.
  // Null when there is none or a name is ambiguous.
  const Task* find(std::string_view id) const;

 private:
  Status add(Task task);
  std::vector<Task> tasks_;
};

}  // namespace musacoder::task
