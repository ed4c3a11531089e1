// The judge's options on the command line, for every command that verifies.
#pragma once

#include "cli/commands.h"

namespace CLI {
class App;
}

namespace musacoder::cli {

void add_judge_options(CLI::App* app, JudgeOptions& options);

}  // namespace musacoder::cli
