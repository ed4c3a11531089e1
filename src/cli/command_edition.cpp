// `musacoder port --kernelbench` and `musacoder prompt`: the MUSA edition of a task set, and prompts for both
// backends.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/files.h"
#include "base/terminal.h"
#include "cli/batch.h"
#include "cli/commands.h"
#include "cli/judge_config.h"
#include "judge/rows.h"
#include "port/rename_table.h"
#include "task/edition.h"

namespace musacoder::cli {
namespace {

using nlohmann::json;

int refuse(const char* command, const Error& error) {
  fmt::print(stderr, "musacoder {}: {}\n", command, base::printable(error.message));
  return error.code == Code::kInvalidArgument || error.code == Code::kNotFound ? 2 : 3;
}

// Judges each exemplar as the edition has it and notes the status. Errors: those of run_batch.
Status verify_exemplars(task::Edition& edition, bool quiet) {
  JudgeOptions options;
  options.backend = "vgpu";
  options.gpu = "s5000";
  MC_ASSIGN_OR_RETURN(auto config, judge_config(options));
  MC_ASSIGN_OR_RETURN(auto folder, base::TempDir::create("exemplars"));
  std::stringstream rows;
  for (const task::EditionExemplar& exemplar : edition.exemplars)
    rows << json({{"reference", exemplar.musa.task},
                  {"candidate", exemplar.musa.answer},
                  {"exemplar", exemplar.musa.name}})
                .dump()
         << '\n';
  const std::string out = folder.file("verdicts.jsonl");
  MC_ASSIGN_OR_RETURN(
      const BatchSummary summary,
      run_batch(
          {.rows = "", .out = out, .tasks = "", .store = "", .lanes = 1, .quiet = quiet, .judge = config},
          rows));
  if (summary.interrupted) return fail(Code::kUnavailable, "interrupted");
  auto read = judge::read_rows(out, [&](const judge::VerdictRow& row) {
    for (task::EditionExemplar& exemplar : edition.exemplars)
      if (judge::row_text(row, "exemplar") == exemplar.musa.name) exemplar.status = row.verdict.status;
  });
  if (!read) return tl::unexpected<Error>(read.error());
  return ok();
}

// Only verified exemplars stay; the one in the prompts must be among them.
Status keep_verified(task::Edition& edition) {
  std::vector<task::EditionExemplar> kept;
  for (task::EditionExemplar& exemplar : edition.exemplars) {
    if (exemplar.status == "ok") {
      kept.push_back(std::move(exemplar));
      continue;
    }
    if (exemplar.musa.name == edition.exemplar)
      return fail(Code::kUnavailable,
                  "the exemplar of the prompts, {}, does not verify: {}; choose another with --one-shot",
                  edition.exemplar, exemplar.status);
    fmt::print(stderr, "musacoder port: exemplar {} is left out: {}\n", exemplar.musa.name, exemplar.status);
  }
  edition.exemplars = std::move(kept);
  return ok();
}

Result<task::Edition> make(const EditionCommandOptions& options) {
  MC_ASSIGN_OR_RETURN(const port::RenameTable table, port::RenameTable::installed());
  MC_ASSIGN_OR_RETURN(const task::Prompts prompts, task::Prompts::installed());
  MC_ASSIGN_OR_RETURN(const task::TaskSet set, task::TaskSet::load(options.tasks));
  return task::make_edition(table, prompts, set,
                            {.tool = std::string("musacoder ") + MUSACODER_VERSION,
                             .levels = options.level,
                             .exemplar = options.one_shot == "none" ? "" : options.one_shot});
}

}  // namespace

int run_edition(const EditionCommandOptions& options) {
  if (options.out.empty()) {
    fmt::print(stderr, "musacoder port: --kernelbench needs -o FOLDER\n");
    return 2;
  }
  if (base::exists(options.out) && !options.force) {
    fmt::print(stderr, "musacoder port: {} exists; give another place, or -f to write over it\n",
               options.out);
    return 2;
  }
  auto edition = make(options);
  if (!edition) return refuse("port", edition.error());
  if (options.verify) {
    if (auto verified = verify_exemplars(*edition, options.quiet); !verified)
      return refuse("port", verified.error());
    if (auto kept = keep_verified(*edition); !kept) return refuse("port", kept.error());
  }
  if (auto written = task::write_edition(*edition, options.out, options.force); !written)
    return refuse("port", written.error());
  if (options.json) {
    fmt::print("{}", task::manifest_of(*edition));
  } else if (!options.quiet) {
    fmt::print("{}: {} tasks of {}, {} exemplars ({})\n", options.out, edition->tasks.size(), edition->suite,
               edition->exemplars.size(), options.verify ? "verified on the virtual GPU" : "not verified");
  }
  return 0;
}

int run_prompt(const PromptCommandOptions& options) {
  auto table = port::RenameTable::installed();
  if (!table) return refuse("prompt", table.error());
  auto prompts = task::Prompts::installed();
  if (!prompts) return refuse("prompt", prompts.error());
  auto set = task::TaskSet::load(options.tasks.empty() ? options.task : options.tasks);
  if (!set) return refuse("prompt", set.error());
  const task::Task* task = options.tasks.empty() ? (set->tasks().size() == 1 ? &set->tasks()[0] : nullptr)
                                                 : set->find(options.task);
  if (!task) {
    fmt::print(stderr, "musacoder prompt: {}\n",
               options.tasks.empty() ? fmt::format("{} holds {} tasks; give --tasks {} and an id",
                                                   options.task, set->tasks().size(), options.task)
                                     : fmt::format("{} has no task '{}'", options.tasks, options.task));
    return 2;
  }
  auto text = prompts->fill(*table, {.backend = options.backend,
                                     .reference = task->code,
                                     .exemplar = options.one_shot == "none" ? "" : options.one_shot,
                                     .form = options.form});
  if (!text) return refuse("prompt", text.error());
  if (options.json)
    fmt::print("{}\n", json({{"task", task->id}, {"backend", options.backend}, {"prompt", *text}})
                           .dump(-1, ' ', false, json::error_handler_t::replace));
  else
    fmt::print("{}", *text);
  return 0;
}

}  // namespace musacoder::cli
