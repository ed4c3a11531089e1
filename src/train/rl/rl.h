// `musacoder-train rl`: reinforcement learning from a verifier's rewards, as a TOML file says (docs/rl.md).
//
//   Status done = run_rl({.config = "rl.toml", .assignments = {"optimizer.lr=3e-6"}});
//
// The same command goes on where the run.dir's newest checkpoint is. Errors: kInvalidArgument and kNotFound
// for what the user gave, kResourceExhausted (disk, memory), kUnavailable (the verifier does not start;
// another process is gone), kInternal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace musacoder::train {

struct RlOptions {
  std::string config;
  std::vector<std::string> assignments;  // "key=value", over the file's
  bool dry_run = false;                  // says what would be trained; starts no verifier
};

struct RlOutcome {
  std::int64_t step = 0;
  bool stopped = false;  // by a signal, behind a step and its checkpoint
};

Result<RlOutcome> run_rl(const RlOptions& options);

}  // namespace musacoder::train
