// What a task computes, from executing it: runtime/python/graph_runner.py in a sandboxed process that stays.
//
//   GraphWorker worker({.runtime_dir = runtime, .python = python});
//   Result<TaskGraph> graph = worker.graph(task_code);      // graph->hash: equal tasks have equal ones
//
// Task files come from generators, models and users' folders: the process sees Python and its own scripts, writes nowhere but
// into a private /tmp, and has no network. A task that ends it, or does not end, is an error about that task; the next one meets
// a fresh process. Thread safe: calls queue up where all processes are busy.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

namespace musacoder::synth {

struct GraphWorkerOptions {
  std::string runtime_dir, python;
  double timeout_s = 60;      // one task
  int processes = 1;          // tasks at the same time, of as many threads; each process is started when it is first needed
};

struct TaskGraph {
  std::string hash, family;
  std::vector<std::string> ops;   // "aten::add", sorted
  std::string shapes, hint;       // texts of the blocks [Tensor Shape Information] and [Kernel Generation Hint]
};

struct HarvestedTask {
  std::string name, code;
};
struct Harvest {
  std::vector<HarvestedTask> tasks;
  std::vector<std::pair<std::string, std::string>> dropped;  // class → reason
};

struct TaskCases {
  std::string code;               // the task's file with its MUSACODER_CASES
  std::vector<std::string> kept;  // names
  std::vector<std::pair<std::string, std::string>> dropped;  // name → reason
};

class GraphWorker {
 public:
  explicit GraphWorker(GraphWorkerOptions options);
  ~GraphWorker();
  int processes() const;
  // Errors: kInvalidArgument (the task: it raises, has no Model, …), kDeadlineExceeded, kUnavailable (the process cannot be had).
  Result<TaskGraph> graph(const std::string& task_code);
  // Unit tests for a task: sizes, values, layouts and dtypes that its reference runs on, twice the same. A file that has some keeps them.
  Result<TaskCases> cases(const std::string& task_code, std::uint64_t seed);
  // nn.Modules of a Python file as task files.
  Result<Harvest> harvest(const std::string& path, const std::string& code);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace musacoder::synth
