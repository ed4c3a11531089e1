// The subcommands of `musacoder`: one options record and one function each. main.cpp fills the records from the command
// line; the functions print to stdout (results) and stderr (progress, errors) and return the process's exit code:
//
//   0 verified or done, 1 the candidate is at fault, 2 wrong usage, 3 infrastructure, unsupported or inconclusive,
//   4 the task is at fault.
//
// To add one: declare its record and function here, write src/cli/command_<name>.cpp, add it to main.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace musacoder::cli {

struct JudgeOptions {
  std::string backend = "vgpu", gpu = "h200", policy = "strict";
  int trials = 7;
  std::uint64_t seed = 0;           // 0: drawn from the system
  std::vector<std::string> set;     // "NAME=VALUE"
  bool full_size = false;
  double work_budget = 3e7;
  bool audit = true;
  double candidate_seconds = 240;
};

struct VerifyOptions {
  std::string task, candidate;      // files, or an id of `tasks`
  std::string tasks, id;
  bool json = false, feedback = false, quiet = false;
  std::string store;                // SQLite file; empty: none
  std::string batch, out;           // JSONL in, JSONL appended to
  int lanes = 0;                    // 0: one a core
  JudgeOptions judge;
};
int run_verify(const VerifyOptions& options);

struct TasksOptions {
  std::string tasks, id;
  int level = 0;                    // 0: every level
  bool json = false;
  int lanes = 0;
  JudgeOptions judge;
};
int run_tasks_list(const TasksOptions& options);
int run_tasks_audit(const TasksOptions& options);

// Pass@k, Avg@k, Faster and fast_p over verdict lines (judge/metrics.h). `verdicts` "-": stdin.
struct MetricsOptions {
  std::string verdicts;
  std::vector<int> k;               // empty: 1 and, where every task has as many, 8
  bool json = false;
};
int run_metrics(const MetricsOptions& options);

// One self-contained page of verdict lines (cli/report_html.h). `verdicts` "-": stdin.
struct ReportOptions {
  std::string verdicts;
  std::string out = "report.html";
  std::string title;                // empty: the file's name
};
int run_report(const ReportOptions& options);

// What this machine can and cannot do (cli/doctor.h). 0 when verification on the virtual GPU works, else 3.
struct DoctorOptions {
  bool json = false;
};
int run_doctor(const DoctorOptions& options);

}  // namespace musacoder::cli
