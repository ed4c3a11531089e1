// How good a model is on a set of tasks: Pass@k, Avg@k, Faster and how different its verified answers are, by
// family of tasks, with intervals.
//
//   Evaluation evaluation({.k = {1, 8}});
//   for (each verdict line) evaluation.add(line, kernel_text);
//   EvaluationReport report = evaluation.report();
//   report.overall.pass_at.at(8).value;  report.overall.pass_at.at(8).low;
//
// A sample is verified where one of its turns is; its first turn is counted apart. Verdicts that say nothing
// about a candidate (judge::is_null_reward) leave a task's samples and stand in `nulls`. Pass@k and Avg@k as
// in judge/metrics.h. Intervals: the 2.5th and 97.5th percentile of the statistic over `resamples` draws of
// as many tasks, with replacement (Efron 1979); they say how much hangs on the choice of tasks, not on the
// model's seeds. Faster: share of decided samples that are verified and measured more than 1.1 × as fast as
// eager; null where nothing was measured. Distinct: clusters of synth/diversity.h among a task's verified
// answers, mean over tasks that have one.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "synth/diversity.h"

namespace musacoder::generate {

struct EvaluationConfig {
  std::vector<int> k = {1};
  int resamples = 2000;
  std::uint64_t seed = 1;
  double faster_than = 1.1;
};

struct Judgement {           // of one answer
  std::string task_key;      // equal for the same task
  std::string task, family;  // as people know them
  int sample = 0, turn = 1;
  std::string status;
  std::optional<double> speedup_eager;
  std::string kernels;  // of verified ones: their text
};

struct Interval {
  std::optional<double> value;  // null where no task can give it
  double low = 0, high = 0;
};

struct FamilyReport {
  std::string name;
  std::size_t tasks = 0, tasks_verified = 0, samples = 0, decided = 0, verified = 0, verified_first = 0,
              nulls = 0;
  std::map<int, Interval> pass_at;
  Interval avg, first_turn, faster, distinct, entropy;
  std::map<std::string, std::size_t> statuses;  // of last turns
};

struct EvaluationReport {
  FamilyReport overall;
  std::vector<FamilyReport> families;  // by name
};

class Evaluation {
 public:
  explicit Evaluation(EvaluationConfig config) : config_(std::move(config)) {}
  void add(Judgement judgement) { judgements_.push_back(std::move(judgement)); }
  EvaluationReport report() const;

 private:
  EvaluationConfig config_;
  std::vector<Judgement> judgements_;
};

nlohmann::json to_json(const EvaluationReport& report);
// An aligned table, a row a family, or GitHub's Markdown.
std::string evaluation_table(const EvaluationReport& report, bool markdown);

}  // namespace musacoder::generate
