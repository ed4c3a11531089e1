// Metrics over verdicts: unbiased Pass@k, Avg@k, Faster and fast_p, per level and overall, with the verdicts that say
// nothing about a candidate counted beside.
//
//   Metrics metrics({.k = {1, 8}});
//   metrics.add({.task = "level1/19", .level = "1", .status = "ok", .speedup_eager = 1.8});
//   MetricsReport report = metrics.report();
//   report.overall.pass_at.at(8).value;
//
// Samples group by task within a level. n = decided samples of a task, c = verified ones. infra, unsupported,
// inconclusive and invalid_task leave n and stand in `nulls`.
//   Pass@k  mean over tasks with n ≥ k of 1 − C(n−c, k) / C(n, k)   (Chen et al. 2021, arXiv 2107.03374, Eq. 1)
//   Avg@k   mean over tasks with n ≥ k of c / n                      (the expected share of right answers among k)
//   Faster  share of decided samples that are verified and more than 1.1 × as fast as the baseline (MusaCoder paper, §5.2)
//   fast_p  share of decided samples that are verified and more than p × as fast (KernelBench, arXiv 2502.10517, §3.3);
//           fast_0 needs no time
// Verified samples without a measured time leave the denominators of Faster and fast_p (p > 0); when no sample was
// measured these are null, unless times are measured where the samples were judged and none is verified: then they are 0.
// Tasks with fewer than k decided samples leave Pass@k and Avg@k and are counted.
//
// Undecided samples bound Pass@k and Avg@k. With u nulls of a task, what the mean over tasks with n + u ≥ k would be had
// every sample been decided lies between (n + u, c), all of them wrong, and (n + u, c + u), all of them right. A task that
// has k samples but fewer than k decided ones is in the bounds and not in the value, which can so lie outside of them.
//
// Tasks of a suite without a sample (add_task) are unsolved: 0 in Pass@k, Avg@k and their bounds. The shares of samples
// count such a task with as many samples as the tasks with decided ones have on average, none of them verified. Where
// every task has the same number of samples, Faster over all levels is so the mean over tasks that the paper's Table 1
// shows (its Overall is the mean of the levels weighted by their 100, 100 and 50 tasks).
#pragma once

#include <cstddef>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace musacoder::judge {

struct MetricsConfig {
  std::vector<int> k = {};                             // empty: 1, and 8 when some task has 8 decided samples
  std::vector<double> fast_p = {0, 0.5, 0.8, 1, 1.5, 2};
  double faster_than = 1.1;
};

struct Sample {
  std::string task = {}, level = {}, status = {};
  std::optional<double> speedup_eager = {}, speedup_compile = {}, reward = {};
  bool timed = false;                                  // judged where times are measured
};

// A mean with its standard error over tasks (0 with fewer than two tasks), and how many tasks it is over.
struct TaskMean {
  std::optional<double> value;
  std::optional<double> lower, upper;                  // by the undecided samples; null where no task has k samples
  double standard_error = 0;
  std::size_t tasks = 0, left_out = 0;                 // left_out: tasks with fewer than k decided samples
};

struct GroupMetrics {
  std::string name;                                    // "level 1", "overall"
  std::size_t tasks = 0, samples = 0, decided = 0, verified = 0, tasks_verified = 0, nulls = 0;
  std::size_t unsampled = 0;                           // of `tasks`: those of add_task() without a sample
  std::size_t measured_eager = 0, measured_compile = 0;  // verified samples with a time
  std::map<int, TaskMean> pass_at, avg_at;
  std::optional<double> faster_eager, faster_compile;
  std::map<double, std::optional<double>> fast_p_eager, fast_p_compile;
  std::optional<double> mean_reward;                   // over rewards that are not null
  std::map<std::string, std::size_t> classes;          // ok, compile_error, …
  std::map<std::string, std::size_t> statuses;         // whole statuses
};

struct MetricsReport {
  std::vector<GroupMetrics> levels;                    // sorted by level; absent when no level is known
  GroupMetrics overall;
};

// 1 − C(n−c, k) / C(n, k), for 0 ≤ c ≤ n and 1 ≤ k ≤ n.
double pass_at_k(int n, int c, int k);

class Metrics {
 public:
  explicit Metrics(MetricsConfig config = {}) : config_(std::move(config)) {}
  void add(Sample sample) { samples_.push_back(std::move(sample)); }
  // A task that counts as unsolved when no sample of it is added.
  void add_task(std::string task, std::string level) { tasks_.emplace_back(std::move(level), std::move(task)); }
  MetricsReport report() const;

 private:
  MetricsConfig config_;
  std::vector<Sample> samples_;
  std::vector<std::pair<std::string, std::string>> tasks_;   // level, task
};

struct VerdictRow;  // judge/rows.h
// A verdict line as a sample. A verdict without a task's name goes by the task's hash.
Sample sample_of(const VerdictRow& row);

nlohmann::json to_json(const MetricsReport& report);
// Aligned text for a terminal or a pipe.
std::string metrics_text(const MetricsReport& report);

}  // namespace musacoder::judge
