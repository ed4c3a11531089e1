// The keys that all kinds of training have: the model, where it runs, the optimizer, checkpoints, logs.
//
//   struct MyConfig : RunConfig { std::int64_t steps = 100; } config;
//   std::vector<ConfigKey> keys = model_keys(config);
//   add_keys(keys, optimizer_keys(config));
//   add_keys(keys, log_keys(config));
//   MC_RETURN_IF_ERROR(check_run(config));
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "train/config/config_table.h"

namespace musacoder::train {

struct RunConfig {
  std::string model_path, model_type = "f32";
  std::string run_dir, device = "cpu";
  std::int64_t seed = 0, threads = 0;
  bool recompute = false;

  double lr = 1e-5, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0.01, clip = 1;
  std::string schedule = "cosine";
  double warmup = 0.03, floor = 0;

  std::int64_t lora_rank = 0;
  double lora_alpha = 16;
  std::vector<std::string> lora_targets = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                           "gate_proj", "up_proj", "down_proj"};

  std::int64_t checkpoint_every = 0, checkpoint_keep = 2;
  std::int64_t log_every = 1;
  bool tensorboard = true;
  std::string shard = "optimizer", backend = "auto";
};

// Bound to `config`, which must outlive them: model and run; train.recompute, optimizer, schedule, lora and
// checkpoint; log and parallel.
std::vector<ConfigKey> model_keys(RunConfig& config);
std::vector<ConfigKey> optimizer_keys(RunConfig& config);
std::vector<ConfigKey> log_keys(RunConfig& config);
void add_keys(std::vector<ConfigKey>& keys, std::vector<ConfigKey> more);

// Values of these keys that make no sense, alone or together.
Status check_run(const RunConfig& config);
// kInvalidArgument that names the first value below 0, or not a number.
Status not_negative(std::initializer_list<std::pair<const char*, double>> values);

}  // namespace musacoder::train
