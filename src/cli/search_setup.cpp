#include "cli/search_setup.h"

#include <fmt/format.h>

#include <iostream>
#include <iterator>

#include "base/files.h"
#include "base/terminal.h"
#include "generate/module_file.h"
#include "port/rename_table.h"

namespace musacoder::cli {

int refuse_command(const char* command, const Error& error) {
  fmt::print(stderr, "musacoder {}: {}\n", command, base::printable(error.message));
  return error.code == Code::kInvalidArgument || error.code == Code::kNotFound ? 2 : 3;
}

Result<task::Task> open_module(const SearchOptions& options, const judge::JudgeConfig& config) {
  if (options.tasks.empty())
    return generate::task_of_module(
        options.module, {.class_name = options.class_name, .inputs = options.inputs, .init = options.init},
        config.python, config.runtime_dir);
  MC_ASSIGN_OR_RETURN(const task::TaskSet set, task::TaskSet::load(options.tasks));
  const task::Task* task = set.find(options.module);
  if (!task)
    return fail(Code::kInvalidArgument, "{} has no task '{}'; `musacoder tasks list --tasks {}` lists them",
                options.tasks, options.module, options.tasks);
  return *task;
}

Result<std::string> prompt_of(const task::Task& task, const PromptStyle& style) {
  MC_ASSIGN_OR_RETURN(const auto table, port::RenameTable::installed());
  MC_ASSIGN_OR_RETURN(const task::Prompts prompts, task::Prompts::installed());
  return prompts.fill(table, {.backend = style.language,
                              .reference = task.code,
                              .exemplar = style.one_shot == "none" ? "" : style.one_shot,
                              .form = style.form});
}

Result<std::string> read_candidate(const std::string& path) {
  if (path != "-") return base::read_file(path, 64u << 20);
  return std::string((std::istreambuf_iterator<char>(std::cin)), {});
}

}  // namespace musacoder::cli
