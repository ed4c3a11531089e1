#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/terminal.h"
#include "cli/bench_table.h"
#include "cli/commands.h"
#include "cli/read_verdicts.h"
#include "cli/suite.h"
#include "judge/metrics.h"

namespace musacoder::cli {
namespace {

int usage(const std::string& message) {
  fmt::print(stderr, "musacoder metrics: {}\n", base::printable(message));
  return 2;
}

// The suite's task that a verdict is about, or null.
const task::Task* task_of(const Suite& suite, const judge::VerdictRow& row) {
  const task::Task* task = suite.find(row.verdict.task);
  return task || row.level.empty() ? task : suite.find(row.level + "/" + row.verdict.task);
}

}  // namespace

int run_metrics(const MetricsOptions& options) {
  std::optional<Suite> suite;
  judge::Metrics metrics({.k = options.k});
  if (!options.tasks.empty()) {
    auto loaded = Suite::load(options.suite, options.tasks, options.level);
    if (!loaded) return usage(loaded.error().message);
    suite = std::move(*loaded);
    for (const task::Task* task : suite->tasks())
      if (!options.only_sampled) metrics.add_task(task->id, level_name(*task));
    for (const std::string& remark : suite->remarks()) fmt::print(stderr, "musacoder metrics: {}\n", remark);
  } else if (!options.level.empty() || options.suite != "any" || options.only_sampled) {
    return usage("--suite, --level and --only-sampled need --tasks");
  }
  std::size_t left_out = 0;
  const int code = read_verdicts("metrics", options.verdicts, [&](judge::VerdictRow row) {
    judge::Sample sample = judge::sample_of(row);
    if (suite) {
      const task::Task* task = task_of(*suite, row);
      if (!task) {
        ++left_out;
        return;
      }
      sample.task = task->id;
      sample.level = level_name(*task);
      if (suite->refuses(row.verdict.dialect, row.verdict.status)) {
        sample.status = kOtherDialect;
        sample.speedup_eager = sample.speedup_compile = sample.reward = std::nullopt;
      }
    }
    metrics.add(std::move(sample));
  });
  if (code != 0) return code;
  if (left_out)
    fmt::print(stderr, "musacoder metrics: {} verdicts of tasks outside the suite are left out\n", left_out);
  const judge::MetricsReport report = metrics.report();
  if (options.json)
    fmt::print("{}\n", judge::to_json(report).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  else
    fmt::print("{}{}", options.suite == "musa-kernelbench" ? musa_table(report) + "\n" : "", judge::metrics_text(report));
  return 0;
}

}  // namespace musacoder::cli
