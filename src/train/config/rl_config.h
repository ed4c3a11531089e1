// What `musacoder-train rl` is told: all keys of its TOML file, with their defaults.
//
//   RlConfig config;
//   MC_RETURN_IF_ERROR(read_config(rl_keys(config), "rl.toml"));
//   MC_RETURN_IF_ERROR(check(config));
//
// docs/rl.md holds the table that config_markdown(rl_keys(defaults)) prints; a test holds them together.
// The objective that they describe: train/config/rl_objective.h. Optimizer and sampling begin at the values
// of the MusaCoder paper, section 5.1.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "train/config/run_config.h"

namespace musacoder::train {

// What puts a number at the preset's.
inline constexpr double kOfPreset = -1;

struct RlConfig : RunConfig {
  RlConfig() {
    lr = 1e-6;
    weight_decay = 0.1;
    clip = 0.5;
    warmup = 0.1;
    schedule = "constant";
  }
  std::vector<std::string> tasks_train, tasks_eval;
  std::string prompt_form = "full", exemplar, dialect = "cuda";
  std::int64_t date = 1767225600;

  std::string mode = "sync";
  std::int64_t group = 8, batch = 8, turns = 1, warmup_steps = 0;
  double temperature = 0.9, top_p = 0.95;
  std::int64_t top_k = 0, prompt_tokens = 8192, response_tokens = 2048;
  std::string rollout_type = "same", swap_cache = "keep";
  std::int64_t publish_every = 1, staleness = 1, max_running = 64, cache_tokens = 0;
  bool informative_only = false;
  std::int64_t waves = 3;

  std::string reward = "echo";
  double alpha = 0.75, first_bonus = 0.2, second_bonus = 0.1;
  std::int64_t overlong_cache = 0;
  std::string advantage = "grpo";
  double advantage_epsilon = 1e-6;
  bool sample_std = true;

  std::string preset = "mirrorpop", clip_kind = "preset", ratio_level = "preset", ratio = "preset",
              correction = "preset", mask = "preset", mask_pair = "preset", normalisation = "preset",
              kl_kind = "k3";
  double clip_low = kOfPreset, clip_high = kOfPreset, clip_dual = kOfPreset, correction_low = kOfPreset,
         correction_high = kOfPreset, mask_low = kOfPreset, mask_high = kOfPreset, mask_delta = kOfPreset,
         kl = 0;
  std::string reference;

  std::int64_t steps = 100, mini_batches = 1, batch_epochs = 1, pass_tokens = 8192;
  std::string train_turns = "first", old_logprobs = "auto";
  bool mask_truncated = false;

  double retry_probability = 0;
  std::int64_t retry_start = 0, retry_capacity = 128, retry_most = 2;

  std::string verifier_url, verifier_token_file, verifier_program;
  std::vector<std::string> verifier_args;
  std::int64_t verifier_lanes = 0, verifier_connections = 32, verifier_retries = 3;
  double verifier_timeout_s = 900;

  std::int64_t eval_every = 0, eval_samples = 8, eval_turns = 1;
  double eval_temperature = 0.7, eval_top_p = 0.7;
  std::string eval_url;
  std::vector<std::string> eval_args = {"--trials", "15", "--seed", "20260131"};

  std::int64_t log_answers = 2;
};

// Bound to `config`, which must outlive them.
std::vector<ConfigKey> rl_keys(RlConfig& config);
// Values that make no sense, alone or together.
Status check(const RlConfig& config);

// Turns that a rollout of a step may take.
std::int64_t turns_at(const RlConfig& config, std::int64_t step);

}  // namespace musacoder::train
