// The commands that ask models: generate, repair, optimize, review, sample, evaluate, rft (docs/generate.md).
// Records and functions as in commands.h; add_generate_commands() puts them on the command line.
//
// Exit codes of generate, repair and optimize: 0 something was verified, 1 candidates failed, 2 wrong usage,
// 3 no verdict about any candidate (infrastructure, unsupported, the model gave nothing), 4 the module is at
// fault.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/model_options.h"

namespace musacoder::cli {

struct SearchOptions {
  std::string module;     // MODULE.py; an id of `tasks`
  std::string tasks;      // task set that `module` is an id of; empty: a file
  std::string candidate;  // repair, optimize, review: the file or answer to start from
  std::string class_name;
  std::optional<std::string> inputs, init;
  std::string out;  // folder; empty: <module>.kernel, .repaired, .optimized beside the module
  int samples = 8, turns = 3;
  double seconds = 0;         // budget; 0: none
  bool first = false;         // stop at the first verified one
  std::string form;           // of the prompt; empty: compact for the default model, which was trained with it, else full
  std::string one_shot = "none";
  std::string language = "cuda";
  bool json = false, quiet = false;
  int lanes = 0;
  ModelOptions model;
  JudgeOptions judge;
};
int run_generate(const SearchOptions& options);
int run_repair(const SearchOptions& options);
int run_optimize(const SearchOptions& options);
// 0 the review agrees with the verdict, 1 it does not or names none, 2 wrong usage, 3 no verdict, 4 the
// module.
int run_review(const SearchOptions& options);

struct SampleOptions {
  std::string tasks, out;        // task set; sample: JSONL appended to; evaluate: a folder
  std::vector<std::string> ids;  // only these tasks; empty: all
  std::vector<int> level;
  int limit = 0;  // only the first so many tasks; 0: all
  int samples = 8, turns = 1;
  std::vector<int> k;  // evaluate; empty: 1 and `samples`
  double seconds = 0;  // budget; what is left is done by the same command again
  std::string form = "compact", one_shot = "none", language = "cuda";
  bool json = false, quiet = false;
  int lanes = 0;
  ModelOptions model;
  JudgeOptions judge;
};
// 0 all answers are there, 3 the model is gone, 4 stopped before the end (time, signal), 2 wrong usage.
int run_sample(const SampleOptions& options);
int run_evaluate(const SampleOptions& options);

struct RftOptions {
  std::vector<std::string> verdicts;  // VERDICTS.jsonl of evaluate, generate or verify --batch
  std::string out;                    // folder: rft.jsonl, rft_best.jsonl, summary.json
  std::size_t least = 4, most = 8;    // of a pool
  double similarity = 0.6;
  std::vector<std::string>
      with;  // JSONL of rows that stand behind the new ones, so that they are not forgotten
  std::string form = "compact";  // of prompts, for rows that carry none
  bool json = false;
};
// 0 rows were written, 1 nothing was verified and no `with` is given, 2 wrong usage, 3 not written.
int run_rft(const RftOptions& options);

void add_generate_commands(CLI::App& app, int& code);

}  // namespace musacoder::cli
