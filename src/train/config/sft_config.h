// What `musacoder-train sft` is told: all keys of its TOML file, with their defaults.
//
//   SftConfig config;
//   MC_RETURN_IF_ERROR(read_config(sft_keys(config), "run.toml"));
//   MC_RETURN_IF_ERROR(check(config));
//
// docs/training.md holds the table that config_markdown(sft_keys(defaults)) prints; a test holds them
// together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "train/config/config_table.h"

namespace musacoder::train {

struct SftConfig {
  std::string model_path, model_type = "f32";
  std::string run_dir, device = "cpu";
  std::int64_t seed = 0, threads = 0;

  std::vector<std::string> data_train, data_eval;
  std::int64_t length = 2048, window = 64, date = 1767225600;
  bool packing = true;
  std::string too_long = "drop", loss = "answer", control_text = "error";
  NumberMap weights, shares;

  double epochs = 1;
  std::int64_t steps = 0, batch_rows = 8, pass_rows = 1;
  bool recompute = false;

  double lr = 1e-5, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0.01, clip = 1;
  std::string schedule = "cosine";
  double warmup = 0.03, floor = 0;

  std::int64_t lora_rank = 0;
  double lora_alpha = 16;
  std::vector<std::string> lora_targets = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                           "gate_proj", "up_proj", "down_proj"};

  std::int64_t checkpoint_every = 0, checkpoint_keep = 2;
  std::int64_t eval_every = 0;
  std::string eval_command;
  double eval_timeout_s = 3600;
  std::int64_t log_every = 1;
  bool tensorboard = true;
  std::string shard = "optimizer", backend = "auto";
};

// Bound to `config`, which must outlive them.
std::vector<ConfigKey> sft_keys(SftConfig& config);
// Values that make no sense, alone or together.
Status check(const SftConfig& config);

}  // namespace musacoder::train
