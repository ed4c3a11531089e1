#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/read_verdicts.h"
#include "judge/metrics.h"

namespace musacoder::cli {

int run_metrics(const MetricsOptions& options) {
  for (int k : options.k)
    if (k < 1) {
      fmt::print(stderr, "musacoder metrics: k is {}; give values from 1, such as --k 1,8\n", k);
      return 2;
    }
  judge::Metrics metrics({.k = options.k});
  const int code = read_verdicts("metrics", options.verdicts, [&](judge::VerdictRow row) {
    judge::Verdict& v = row.verdict;
    metrics.add({.task = v.task.empty() ? v.task_hash : std::move(v.task),
                 .level = std::move(row.level),
                 .status = std::move(v.status),
                 .speedup_eager = v.speedup_eager,
                 .speedup_compile = v.speedup_compile,
                 .reward = v.reward});
  });
  if (code != 0) return code;
  const judge::MetricsReport report = metrics.report();
  if (options.json) fmt::print("{}\n", judge::to_json(report).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  else fmt::print("{}", judge::metrics_text(report));
  return 0;
}

}  // namespace musacoder::cli
