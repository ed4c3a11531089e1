// From verdicts to what `musacoder bench` prints: the metrics of a suite, which samples were not decided and
// why, which tasks have no sample.
//
//   BenchTable table(suite, samples, {.k = {1, 8}});
//   table.add(row);                                     // verdict lines; each finds its sample by `row_key`
//   BenchReport report = table.report();
//   fmt::print("{}", bench_text(report));
//
// `suite` and `samples` must outlive the table. Samples without a verdict count as undecided
// (infra:unfinished).
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/bench_samples.h"
#include "cli/suite.h"
#include "judge/metrics.h"
#include "judge/rows.h"

namespace musacoder::cli {

struct BenchTableOptions {
  std::vector<int> k = {};    // as MetricsConfig::k
  bool only_sampled = false;  // leave out tasks without a sample
};

struct UndecidedSample {
  std::string task;
  int index = 0;
  std::string source, status, cause;
};

struct BenchReport {
  judge::MetricsReport metrics;
  std::vector<UndecidedSample>
      undecided;                       // with a verdict that says nothing about them, in the samples' order
  std::vector<std::string> unsampled;  // ids of the suite's tasks without a sample, left out or not
  std::size_t suite_tasks = 0, samples = 0;
  std::size_t judged = 0;          // samples with a verdict
  std::size_t other_verdicts = 0;  // verdicts of other samples, not counted
  std::size_t other_dialect = 0;   // in a dialect that the suite refuses: counted as unsolved
  bool all_decided() const { return judged == samples && undecided.empty(); }
};

class BenchTable {
 public:
  BenchTable(const Suite& suite, const std::vector<BenchSample>& samples, BenchTableOptions options);
  // True when the verdict is of one of the samples.
  bool add(const judge::VerdictRow& row);
  BenchReport report() const;

 private:
  struct Judged {
    judge::Sample sample;
    std::string cause;
  };
  const Suite& suite_;
  const std::vector<BenchSample>& samples_;
  BenchTableOptions options_;
  std::map<std::string, std::size_t> by_key_;  // row_key → index of the sample
  std::map<std::size_t, Judged> judged_;
  std::size_t other_verdicts_ = 0, other_dialect_ = 0;
};

// The columns of the MusaCoder paper's Table 4, which is about MUSA KernelBench: Overall, L1, L2, L3, each with Pass@k, Avg@k
// and Faster against eager; there is no compiled baseline on MUSA. One row for each k.
std::string musa_table(const judge::MetricsReport& metrics);

// Aligned text: the table of judge/metrics.h, then the undecided samples, at most `listed` of them.
std::string bench_text(const BenchReport& report, std::size_t listed = 20);
// As judge::to_json(MetricsReport), with `undecided`, `unsampled_tasks` and counts beside.
nlohmann::json to_json(const BenchReport& report);

}  // namespace musacoder::cli
