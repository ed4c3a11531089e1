// From command-line options to the judge's configuration.
#pragma once

#include "base/status.h"
#include "cli/commands.h"
#include "judge/judge.h"

namespace musacoder::cli {

// Finds the runtime folder, python and the cache; parses --set. Errors: kInvalidArgument, kNotFound.
Result<judge::JudgeConfig> judge_config(const JudgeOptions& options);

}  // namespace musacoder::cli
