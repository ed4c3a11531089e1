// Reading a file of verdict lines for a command, with its messages on stderr.
#pragma once

#include <functional>
#include <string>

#include "judge/rows.h"

namespace musacoder::cli {

// Returns 0, or the exit code 2 when the file cannot be read or holds no verdict. Lines that are no verdicts are reported
// once, with the first reason, and skipped.
int read_verdicts(const char* command, const std::string& path, const std::function<void(judge::VerdictRow)>& use);

}  // namespace musacoder::cli
