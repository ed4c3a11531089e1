// `musacoder verify`: one candidate to a report or JSON, or a batch.
#include <unistd.h>

#include <charconv>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/terminal.h"
#include "cli/batch.h"
#include "cli/commands.h"
#include "cli/judge_config.h"
#include "cli/report_terminal.h"
#include "cli/scratch.h"
#include "judge/feedback.h"
#include "store/store.h"
#include "task/task.h"

namespace musacoder::cli {
namespace {

constexpr std::uint64_t kMaxAnswerBytes = 512ull << 20;

Result<std::string> read_answer(const std::string& path) {
  if (path != "-") return base::read_file(path, kMaxAnswerBytes);
  std::string text((std::istreambuf_iterator<char>(std::cin)), {});
  if (text.size() > kMaxAnswerBytes) return fail(Code::kInvalidArgument, "the answer on stdin is larger than 512 MiB");
  return text;
}

int usage(const std::string& message) {
  fmt::print(stderr, "musacoder verify: {}\n", message);
  return 2;
}

int verify_batch(const VerifyOptions& options, judge::JudgeConfig config) {
  if (options.out.empty()) return usage("--batch needs --out VERDICTS.jsonl");
  if (!options.task.empty()) return usage("--batch takes tasks and candidates from its rows; leave TASK and CANDIDATE out");
  BatchOptions batch{.rows = options.batch,
                     .out = options.out,
                     .tasks = options.tasks,
                     .store = options.store,
                     .lanes = options.lanes,
                     .quiet = options.quiet,
                     .judge = std::move(config)};
  auto summary = run_batch(batch);
  if (!summary) {
    fmt::print(stderr, "musacoder verify: {}\n", summary.error().message);
    return batch_exit_code(summary.error());
  }
  if (options.json) {
    nlohmann::json line = {{"rows", summary->rows},         {"judged", summary->judged},   {"skipped", summary->skipped},
                           {"malformed", summary->malformed}, {"seconds", summary->seconds}, {"statuses", summary->statuses},
                           {"interrupted", summary->interrupted}};
    fmt::print("{}\n", line.dump());
  } else if (!options.quiet) {
    for (const auto& [status, count] : summary->statuses) fmt::print("{:6}  {}\n", count, status);
  }
  return summary->interrupted ? 3 : 0;
}

}  // namespace

int run_verify(const VerifyOptions& options) {
  auto config = judge_config(options.judge);
  if (!config) return usage(config.error().message);
  // Also removes what a killed one left.
  auto scratch = own_scratch();
  if (!scratch) {
    fmt::print(stderr, "musacoder verify: {}\n", scratch.error().message);
    return 3;
  }
  if (!options.batch.empty()) return verify_batch(options, std::move(*config));

  // With --id (or --tasks and one positional) the task comes from the set and the only positional is the candidate.
  std::string task_path = options.task, candidate_path = options.candidate, id = options.id;
  if (!options.tasks.empty()) {
    if (id.empty() && !candidate_path.empty()) {
      id = task_path;
    } else if (candidate_path.empty()) {
      candidate_path = task_path;
    }
    task_path = options.tasks;
  }
  if (task_path.empty() || candidate_path.empty())
    return usage("give a task and a candidate, or --batch; `musacoder verify --help` shows examples");

  auto tasks = task::TaskSet::load(task_path);
  if (!tasks) return usage(tasks.error().message);
  const task::Task* task = nullptr;
  if (!id.empty()) {
    task = tasks->find(id);
    if (!task) return usage(fmt::format("{} has no task '{}'; `musacoder tasks list --tasks {}` lists them", task_path, id, task_path));
  } else if (tasks->tasks().size() == 1) {
    task = &tasks->tasks()[0];
  } else {
    return usage(fmt::format("{} holds {} tasks; name one with --id", task_path, tasks->tasks().size()));
  }
  auto answer = read_answer(candidate_path);
  if (!answer) return usage(answer.error().message);

  auto judge = judge::Judge::create(*config);
  if (!judge) {
    fmt::print(stderr, "musacoder verify: {}\nTry `musacoder doctor`.\n", judge.error().message);
    return 3;
  }
  judge::Verdict verdict;
  {
    base::ProgressLine progress(stderr);
    const bool live = !options.quiet && !options.json && isatty(STDERR_FILENO);
    verdict = (*judge)->judge({.task_id = task->id, .task_code = task->code, .answer = *answer, .answer_name = candidate_path},
                              [&](const std::string& stage) {
                                if (live) progress.update(task->id + ": " + stage);
                              });
  }
  const std::map<std::string, std::string> sources = {{"candidate.py", (*judge)->last_code()}};
  if (!options.store.empty()) {
    auto store = store::Store::open(options.store);
    Status stored = store ? (*store)->put(verdict) : Status(tl::unexpected(store.error()));
    if (!stored) {
      fmt::print(stderr, "musacoder verify: {}\n", stored.error().message);
      return 3;
    }
  }
  if (options.json)
    fmt::print("{}\n", judge::to_json(verdict).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  else
    fmt::print("{}", verdict_report(verdict, base::Terminal(stdout), sources));
  if (options.feedback) fmt::print("\n{}\n", judge::feedback_text(judge::make_feedback(verdict, {.round = 1, .sources = sources})));
  return judge::exit_code(verdict.status);
}

}  // namespace musacoder::cli
