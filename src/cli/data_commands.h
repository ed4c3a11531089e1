// `musacoder data …`: training data made, looked at, checked; modules harvested (docs/data.md). Exit codes as in cli/commands.h: 0 done, 1 what
// was looked at is at fault, 2 wrong usage, 3 infrastructure or stopped.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace musacoder::cli {

struct DataMakeOptions {
  std::string config;                 // TOML; its keys are the flags' names
  std::string out, kernelbench, diagnostic, form = "compact", one_shot = "none";
  std::vector<std::string> tasks, corpus, general, documents, held_out;
  std::vector<int> stages = {1, 2, 3};
  std::uint64_t seed = 1;
  std::vector<std::string> families;
  double random_share = 0.15;
  bool judged_only = false, one_style = false;
  int styles = 1;
  int generate = 0, answers = 2, mutants = 8, rollouts = 1, lanes = 0;
  double general_share = 0.3, shard_mb = 64;
  std::size_t limit = 0;
  bool cases = false, json = false, quiet = false;
  std::string endpoint, model, key_env = "OPENAI_API_KEY", endpoint_form = "full", endpoint_one_shot = "add";
  double per_minute = 0, temperature = 0.8;
  int max_tokens = 8192;
  JudgeOptions judge;
};
int run_data_make(const DataMakeOptions& options);

struct DataLookOptions {
  std::string folder;                 // of `data make`, or a .jsonl or .jsonl.zst file
  std::string kind, family, out;      // filters; out: file that show --raw writes to
  std::size_t skip = 0, limit = 1, verify = 0;
  std::uint64_t seed = 1;
  bool raw = false, json = false;
  JudgeOptions judge;
};
int run_data_stats(const DataLookOptions& options);
int run_data_show(const DataLookOptions& options);
int run_data_validate(const DataLookOptions& options);

struct DataHarvestOptions {
  std::vector<std::string> paths;     // folders and .py files
  std::string out, kernelbench;
  bool json = false;
};
int run_data_harvest(const DataHarvestOptions& options);

void add_data_commands(CLI::App& app, int& code);

}  // namespace musacoder::cli
