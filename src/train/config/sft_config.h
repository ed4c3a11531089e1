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
#include "train/config/run_config.h"

namespace musacoder::train {

struct SftConfig : RunConfig {
  std::vector<std::string> data_train, data_eval;
  std::int64_t length = 2048, window = 64, date = 1767225600;
  bool packing = true;
  std::string too_long = "drop", loss = "answer", control_text = "error";
  NumberMap weights, shares;

  double epochs = 1;
  std::int64_t steps = 0, batch_rows = 8, pass_rows = 1;

  std::int64_t eval_every = 0;
  std::string eval_command;
  double eval_timeout_s = 3600;
};

// Bound to `config`, which must outlive them.
std::vector<ConfigKey> sft_keys(SftConfig& config);
// Values that make no sense, alone or together.
Status check(const SftConfig& config);

}  // namespace musacoder::train
