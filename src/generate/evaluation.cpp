#include "generate/evaluation.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "base/terminal.h"
#include "judge/metrics.h"
#include "judge/verdict.h"

namespace musacoder::generate {
namespace {

using nlohmann::json;

struct Sample {
  bool verified = false, verified_first = false, decided = false, measured = false, faster = false;
  int last_turn = 0;
  std::string status;
};

struct TaskTally {
  std::string name, family;
  std::map<int, Sample> samples;
  std::vector<synth::Implementation> verified;
  int n = 0, c = 0, first = 0, measured = 0, faster = 0, nulls = 0;
  double distinct = 0, entropy = 0;
};

// A statistic of a set of tasks; nullopt where none of them can give it.
using Statistic = std::function<std::optional<double>(const std::vector<const TaskTally*>&)>;

std::optional<double> mean_over(const std::vector<const TaskTally*>& tasks,
                                const std::function<std::optional<double>(const TaskTally&)>& of) {
  double sum = 0;
  std::size_t count = 0;
  for (const TaskTally* task : tasks)
    if (const auto value = of(*task)) sum += *value, ++count;
  if (count == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

Interval interval_of(const std::vector<const TaskTally*>& tasks, const Statistic& statistic,
                     const EvaluationConfig& config) {
  Interval interval{.value = statistic(tasks)};
  if (!interval.value) return interval;
  std::mt19937_64 random(config.seed);
  std::vector<double> drawn;
  std::vector<const TaskTally*> chosen(tasks.size());
  for (int i = 0; i < config.resamples; ++i) {
    // Not uniform_int_distribution, whose draws differ between standard libraries.
    for (auto& task : chosen) task = tasks[random() % tasks.size()];
    if (const auto value = statistic(chosen)) drawn.push_back(*value);
  }
  std::sort(drawn.begin(), drawn.end());
  const auto at = [&](double share) {
    return drawn.empty()
               ? *interval.value
               : drawn[static_cast<std::size_t>(share * static_cast<double>(drawn.size() - 1) + 0.5)];
  };
  interval.low = at(0.025);
  interval.high = at(0.975);
  return interval;
}

FamilyReport report_of(const std::string& name, const std::vector<const TaskTally*>& tasks,
                       const EvaluationConfig& config) {
  FamilyReport report{.name = name, .tasks = tasks.size()};
  for (const TaskTally* task : tasks) {
    report.samples += task->samples.size();
    report.decided += static_cast<std::size_t>(task->n);
    report.verified += static_cast<std::size_t>(task->c);
    report.verified_first += static_cast<std::size_t>(task->first);
    report.nulls += static_cast<std::size_t>(task->nulls);
    report.tasks_verified += task->c > 0;
    for (const auto& [index, sample] : task->samples) ++report.statuses[sample.status];
  }
  for (const int k : config.k)
    report.pass_at[k] = interval_of(
        tasks,
        [k](const auto& some) {
          return mean_over(some, [k](const TaskTally& task) -> std::optional<double> {
            if (task.n < k) return std::nullopt;
            return judge::pass_at_k(task.n, task.c, k);
          });
        },
        config);
  const auto share = [](int TaskTally::*part, int TaskTally::*whole) {
    return [part, whole](const std::vector<const TaskTally*>& some) {
      return mean_over(some, [part, whole](const TaskTally& task) -> std::optional<double> {
        if (task.*whole == 0) return std::nullopt;
        return static_cast<double>(task.*part) / task.*whole;
      });
    };
  };
  report.avg = interval_of(tasks, share(&TaskTally::c, &TaskTally::n), config);
  report.first_turn = interval_of(tasks, share(&TaskTally::first, &TaskTally::n), config);
  if (std::any_of(tasks.begin(), tasks.end(), [](const TaskTally* task) { return task->measured > 0; }))
    report.faster = interval_of(tasks, share(&TaskTally::faster, &TaskTally::n), config);
  const auto where_verified = [](double TaskTally::*field) {
    return [field](const std::vector<const TaskTally*>& some) {
      return mean_over(some, [field](const TaskTally& task) -> std::optional<double> {
        if (task.verified.empty()) return std::nullopt;
        return task.*field;
      });
    };
  };
  report.distinct = interval_of(tasks, where_verified(&TaskTally::distinct), config);
  report.entropy = interval_of(tasks, where_verified(&TaskTally::entropy), config);
  return report;
}

json interval_json(const Interval& interval) {
  if (!interval.value) return nullptr;
  return {{"value", *interval.value}, {"low", interval.low}, {"high", interval.high}};
}

json family_json(const FamilyReport& report) {
  json pass = json::object();
  for (const auto& [k, interval] : report.pass_at) pass[std::to_string(k)] = interval_json(interval);
  return {{"name", report.name},
          {"tasks", report.tasks},
          {"tasks_verified", report.tasks_verified},
          {"samples", report.samples},
          {"decided", report.decided},
          {"verified", report.verified},
          {"verified_first", report.verified_first},
          {"nulls", report.nulls},
          {"pass_at", pass},
          {"avg", interval_json(report.avg)},
          {"first_turn", interval_json(report.first_turn)},
          {"faster", interval_json(report.faster)},
          {"distinct", interval_json(report.distinct)},
          {"entropy", interval_json(report.entropy)},
          {"statuses", report.statuses}};
}

std::string percent(const Interval& interval) {
  if (!interval.value) return "–";
  return fmt::format("{:.1f} [{:.1f}, {:.1f}]", 100 * *interval.value, 100 * interval.low,
                     100 * interval.high);
}

}  // namespace

EvaluationReport Evaluation::report() const {
  std::map<std::string, TaskTally> tallies;
  for (const Judgement& judgement : judgements_) {
    TaskTally& tally = tallies[judgement.task_key];
    tally.name = judgement.task;
    tally.family = judgement.family;
    Sample& sample = tally.samples[judgement.sample];
    const bool verified = judgement.status == "ok";
    sample.verified |= verified;
    sample.verified_first |= verified && judgement.turn <= 1;
    sample.decided |= !judge::is_null_reward(judgement.status);
    if (judgement.turn >= sample.last_turn) {
      sample.last_turn = judgement.turn;
      sample.status = judgement.status;
    }
    if (!verified) continue;
    sample.measured |= judgement.speedup_eager.has_value();
    sample.faster |= judgement.speedup_eager.value_or(0) > config_.faster_than;
    tally.verified.push_back(synth::implementation(judgement.kernels));
  }
  std::vector<const TaskTally*> all;
  std::map<std::string, std::vector<const TaskTally*>> families;
  for (auto& [key, tally] : tallies) {
    for (const auto& [index, sample] : tally.samples) {
      if (!sample.decided) {
        ++tally.nulls;
        continue;
      }
      ++tally.n;
      tally.c += sample.verified;
      tally.first += sample.verified_first;
      tally.measured += sample.measured;
      tally.faster += sample.faster;
    }
    const auto diversity = synth::diversity(synth::clusters(tally.verified, {}));
    tally.distinct = diversity.distinct;
    tally.entropy = diversity.entropy;
    all.push_back(&tally);
    families[tally.family].push_back(&tally);
  }
  EvaluationReport report;
  report.overall = report_of("overall", all, config_);
  for (const auto& [name, tasks] : families)
    report.families.push_back(report_of(name.empty() ? "(none)" : name, tasks, config_));
  return report;
}

json to_json(const EvaluationReport& report) {
  json families = json::array();
  for (const FamilyReport& family : report.families) families.push_back(family_json(family));
  return {{"overall", family_json(report.overall)}, {"families", families}};
}

std::string evaluation_table(const EvaluationReport& report, bool markdown) {
  std::vector<std::string> header = {"family", "tasks", "solved", "samples", "verified", "no verdict"};
  for (const auto& [k, interval] : report.overall.pass_at) header.push_back(fmt::format("pass@{} %", k));
  for (const char* name : {"avg %", "first turn %", "faster %", "distinct"}) header.push_back(name);
  std::vector<base::Align> align(header.size(), base::Align::kRight);
  align[0] = base::Align::kLeft;
  base::Table table(header, align);
  const auto add = [&](const FamilyReport& family) {
    std::vector<std::string> row = {family.name,
                                    std::to_string(family.tasks),
                                    std::to_string(family.tasks_verified),
                                    std::to_string(family.samples),
                                    std::to_string(family.verified),
                                    std::to_string(family.nulls)};
    for (const auto& [k, interval] : family.pass_at) row.push_back(percent(interval));
    for (const Interval* interval : {&family.avg, &family.first_turn, &family.faster})
      row.push_back(percent(*interval));
    row.push_back(family.distinct.value ? fmt::format("{:.2f}", *family.distinct.value) : "–");
    table.add(row);
  };
  for (const FamilyReport& family : report.families) add(family);
  add(report.overall);
  return markdown ? table.markdown() : table.text();
}

}  // namespace musacoder::generate
