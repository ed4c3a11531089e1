// The MUSA edition of a task set: MUSA KernelBench from KernelBench, or the same from tasks of one's own.
//
//   MC_ASSIGN_OR_RETURN(Edition edition, make_edition(table, prompts, set, {.tool = "musacoder 0.1.0"}));
//   MC_RETURN_IF_ERROR(write_edition(edition, "musa-kernelbench", false));
//   TaskSet::load("musa-kernelbench/tasks.jsonl");     // ids, names and levels of the set it was made from
//
// Tasks, levels and order are the set's. Device placement, wording and backend constraints are MUSA's: in the
// tasks' code, in the prompts and in the exemplars. The same input, tables and templates give the same bytes.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "task/prompt.h"
#include "task/task.h"

namespace musacoder::task {

struct EditionOptions {
  std::string tool;              // name and version, for the manifest
  std::vector<int> levels;       // empty: 1, 2 and 3, or all where the set has no levels
  std::string exemplar = "add";  // in the prompts; empty: none
};

struct EditionTask {
  std::string id, name, file;  // file: "level1/19_ReLU.py"
  int level = 0, number = -1;
  std::string code, prompt;
  std::string source_sha256;
};

struct EditionExemplar {
  Exemplar musa;
  std::string status = "not verified";  // or the status of its verdict
};

struct Edition {
  std::string suite;  // "musa-kernelbench"; "musa" for a set without levels
  std::string exemplar;
  std::vector<EditionTask> tasks;  // by level, number, id
  std::vector<EditionExemplar> exemplars;
  std::string tool, tables, prompts, source_sha256;
};

// Errors: kInvalidArgument for levels that leave no task, an unknown exemplar, or two tasks that would be one
// file.
Result<Edition> make_edition(const port::RenameTable& table, const Prompts& prompts, const TaskSet& set,
                             const EditionOptions& options);

// manifest.json: the versions of everything that went in, and SHA-256 of each task, prompt and exemplar.
std::string manifest_of(const Edition& edition);
// The rows of tasks.jsonl and prompts.jsonl.
std::string task_rows(const Edition& edition);
std::string prompt_rows(const Edition& edition);

// manifest.json, tasks.jsonl, prompts.jsonl, levelN/*.py and exemplars/*. The folder appears whole or not at
// all. Errors: kInvalidArgument when it exists and `force` is not set.
Status write_edition(const Edition& edition, const std::string& out, bool force);

}  // namespace musacoder::task
