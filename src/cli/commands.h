// The subcommands of `musacoder`: one options record and one function each. main.cpp fills the records from the command
// line; the functions print to stdout (results) and stderr (progress, errors) and return the process's exit code:
//
//   0 verified or done, 1 the candidate is at fault, 2 wrong usage, 3 infrastructure, unsupported or inconclusive,
//   4 the task is at fault.
//
// To add one: declare its record and function here, write src/cli/command_<name>.cpp, add it to main.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace musacoder::cli {

struct JudgeOptions {
  std::string backend = "auto", gpu = "h200", policy = "strict";
  bool timing = true;               // the rest of this line and the next: real hardware only
  int timed_calls = 50;
  std::vector<std::string> baselines = {"eager", "eager_tf32", "compile", "compile_tf32"};
  std::string sanitize;             // "memcheck,racecheck"; empty: not
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
  std::string suite = "any", tasks; // `tasks` given: only verdicts of its tasks, and those without one are unsolved
  std::vector<int> level;           // of the suite; empty: the suite's own
  std::vector<int> k;               // empty: 1 and, where some task has as many decided samples, 8
  bool only_sampled = false;        // `tasks` without a verdict are left out
  bool json = false;
};
int run_metrics(const MetricsOptions& options);

// A suite over samples, to the table of the paper (docs/bench.md). 0 when every sample was decided, 3 when not, 2 for wrong
// usage.
struct BenchOptions {
  std::string suite = "any", tasks; // cli/suite.h
  std::string samples;              // JSONL or folder (cli/bench_samples.h)
  std::string out;                  // JSONL appended to; empty: the samples' path with .verdicts.jsonl
  std::vector<int> level, k;        // as in MetricsOptions
  bool only_sampled = false;        // leave out tasks without a sample
  bool json = false, quiet = false;
  int lanes = 0;                    // 0: one a core
  JudgeOptions judge;
};
int run_bench(const BenchOptions& options);

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

// The verifier as a service (docs/service.md). Runs until SIGTERM or SIGINT, then drains. 0 after an orderly end, 2 for
// wrong usage, 3 when it could not start.
struct ServeOptions {
  std::vector<std::string> listen = {"127.0.0.1:8811"};
  std::string token_file;           // TOML (service/tokens.h); needed for any address but loopback
  std::string tls_cert, tls_key;    // PEM
  std::string tasks;                // what `task` ids are looked up in
  std::string queue = "sqlite:musacoder-queue.db";
  std::string store;                // SQLite file for verdicts; empty: none
  int lanes = 0;                    // 0: one a core; -1: none, only workers
  std::size_t max_queued = 10'000, max_connections = 2000;
  std::size_t max_body_mib = 8;
  double body_s = 30;               // for a request's body to arrive
  double drain_s = 60;              // for running jobs to end at shutdown
  double keep_days = 30;            // ended jobs in the queue's file
  double visibility_s = 30;
  std::string artifacts;            // folder that /v1/artifacts keeps builds in; empty: below the cache
  int max_faults = 3, max_deaths = 3;   // tries that end in infra, workers that die, before a job ends as failed
  JudgeOptions judge;
};
int run_serve(const ServeOptions& options);

// Lanes in a process of their own, on this machine or another.
struct WorkerOptions {
  std::string queue;                // sqlite:PATH, nats://HOST:PORT[/PREFIX], http://HOST:PORT or https://HOST:PORT
  std::string role = "both";        // "compile": builds, runs nothing; "execute": leaves builds to those
  std::string gpu_arch;             // of a compile worker: builds for that NVIDIA architecture too
  std::string artifacts;            // where builds are shared: dir:PATH, nats://…, http://…; empty: see run_worker()
  std::string token_file;           // its first line; else $MUSACODER_TOKEN
  std::string ca_file;              // PEM, for https
  std::string name;                 // empty: host and process
  int lanes = 1;                    // 0: one a core
  double drain_s = 60, visibility_s = 30;
  JudgeOptions judge;
};
// Builds are shared through `artifacts`; without it through the queue's NATS server or service, and on one machine
// through the cache folder.
int run_worker(const WorkerOptions& options);

// Verdict stores: what `verify --store` and `serve --store` write.
struct StoreOptions {
  std::string file;
  std::string task, status, status_class, text;
  double days = 0;                  // query, export: not older; prune: older. 0: any
  std::size_t limit = 50;           // query; 0: all
  bool infra_only = false;          // prune
  bool json = false;
  std::string format = "jsonl";     // or "csv", "parquet"
  std::string out;                  // export: file, empty stdout; backup: file
};
int run_store_query(const StoreOptions& options);
int run_store_export(const StoreOptions& options);
int run_store_prune(const StoreOptions& options);
int run_store_backup(const StoreOptions& options);

// CUDA texts to MUSA and back (docs/port.md). 0 done, 1 with `strict` when a person has to look at something, 2 wrong usage, 3
// when something could not be written.
struct PortCommandOptions {
  std::vector<std::string> paths;
  std::string to = "musa";          // or "cuda"
  std::string out;                  // file or folder; empty: stdout, for one file
  bool in_place = false, diff = false, dry_run = false, force = false;
  std::string report;               // JSON file
  bool json = false, quiet = false, strict = false;
  bool in_strings = false, in_comments = false, keep_marks = false, hidden = false;
  std::string language = "auto";    // or "cpp", "python", "build", "answer", "text"
  std::vector<std::string> fields;  // of JSONL rows; empty: candidate
  std::string tables;               // folder; empty: the installed ones
};
int run_port(const PortCommandOptions& options);

// The MUSA edition of a task set (docs/musa-kernelbench.md). 0 done, 2 wrong usage, 3 when the exemplars could not be verified
// or something could not be written.
struct EditionCommandOptions {
  std::string tasks, out;
  std::vector<int> level;           // empty: 1, 2 and 3
  std::string one_shot = "add";     // or "none"
  bool verify = true;               // the exemplars, on the virtual GPU
  bool force = false, json = false, quiet = false;
};
int run_edition(const EditionCommandOptions& options);

// The prompt for one task. 0 done, 2 wrong usage.
struct PromptCommandOptions {
  std::string task, tasks;          // a file, or an id of `tasks`
  std::string backend = "cuda";     // or "musa"
  std::string one_shot = "add";     // or "none"
  std::string form = "full";        // or "compact"
  bool json = false;
};
int run_prompt(const PromptCommandOptions& options);

// Models on disk (docs/llm.md), without running them. 0; 1 when --check finds something; 2 for wrong usage.
struct ModelInspectOptions {
  std::string model;                // folder, .safetensors or .gguf
  bool tensors = false, check = false, json = false;
};
int run_model_inspect(const ModelInspectOptions& options);
struct ModelTokenizeOptions {
  std::string model, text;          // text empty or "-": stdin
  std::string chat;                 // JSON file with a conversation, "-" for stdin; empty: none
  std::string variables;            // JSON object for the chat template
  bool generation_prompt = false, plain = false, no_template_tokens = false, show_text = false;
  bool lines = false, decode = false, skip_special = false, ids = false, json = false;
};
int run_model_tokenize(const ModelTokenizeOptions& options);
// GGUF to a folder in Hugging Face's layout.
struct ModelConvertOptions {
  std::string model, out, dtype = "bfloat16";
  double shard_gb = 5;
  bool without_tokenizer = false;
};
int run_model_convert(const ModelConvertOptions& options);

}  // namespace musacoder::cli
