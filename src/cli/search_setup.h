// What the commands that ask models have in common: the module as a task, its prompt, the candidate that is
// given.
#pragma once

#include <string>

#include "base/status.h"
#include "cli/generate_commands.h"
#include "judge/judge.h"
#include "task/prompt.h"
#include "task/task.h"

namespace musacoder::cli {

// Prints "musacoder COMMAND: …" to stderr; 2 where what was given is at fault, else 3.
int refuse_command(const char* command, const Error& error);

// A module's file as a task, or with --tasks the task with that id.
Result<task::Task> open_module(const SearchOptions& options, const judge::JudgeConfig& config);

struct PromptStyle {
  std::string form, one_shot, language;
};
Result<std::string> prompt_of(const task::Task& task, const PromptStyle& style);

// "-": stdin.
Result<std::string> read_candidate(const std::string& path);

}  // namespace musacoder::cli
