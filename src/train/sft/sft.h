// `musacoder-train sft`: fine-tunes a model on conversations and texts, as docs/training.md describes.
//
//   SftOptions options{.config = "run.toml", .assignments = {"optimizer.lr=3e-5"}};
//   MC_ASSIGN_OR_RETURN(const SftOutcome outcome, run_sft(options));
//
// All processes of a run (train/parallel/join.h) call it. SIGINT and SIGTERM end it behind the step that is
// being computed, with a checkpoint; the same command goes on from there. A second signal ends the process at
// once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace musacoder::train {

struct SftOptions {
  std::string config;
  std::vector<std::string> assignments;  // key=value, over the file's
  bool dry_run = false;                  // read everything, say what would be trained, and end
};

struct SftOutcome {
  std::int64_t step = 0;
  bool stopped = false;  // by a signal, before the end
};

Result<SftOutcome> run_sft(const SftOptions& options);

}  // namespace musacoder::train
