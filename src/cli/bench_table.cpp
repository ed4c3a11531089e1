#include "cli/bench_table.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/terminal.h"
#include "cli/batch.h"

namespace musacoder::cli {

using nlohmann::json;

namespace {

constexpr int kCauseColumns = 80;

bool is_decided(const std::string& status) { return status == "ok" || judge::is_candidate_fault(status); }

}  // namespace

BenchTable::BenchTable(const Suite& suite, const std::vector<BenchSample>& samples, BenchTableOptions options)
    : suite_(suite), samples_(samples), options_(std::move(options)) {
  for (std::size_t i = 0; i < samples.size(); ++i) by_key_.emplace(row_key(batch_row(samples[i])), i);
}

bool BenchTable::add(const judge::VerdictRow& row) {
  auto found = by_key_.find(judge::row_text(row, "row_key"));
  if (found == by_key_.end()) {
    ++other_verdicts_;
    return false;
  }
  Judged judged{judge::sample_of(row), row.verdict.cause};
  const bool refused = suite_.refuses(row.verdict.dialect, row.verdict.status);
  if (refused) {
    judged.sample.status = kOtherDialect;
    judged.sample.speedup_eager = judged.sample.speedup_compile = judged.sample.reward = std::nullopt;
  }
  if (judged_.try_emplace(found->second, std::move(judged)).second) other_dialect_ += refused;
  return true;
}

BenchReport BenchTable::report() const {
  BenchReport report;
  report.suite_tasks = suite_.tasks().size();
  report.samples = samples_.size();
  report.judged = judged_.size();
  report.other_verdicts = other_verdicts_;
  report.other_dialect = other_dialect_;
  judge::Metrics metrics({.k = options_.k});
  std::set<const task::Task*> sampled;
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    const BenchSample& from = samples_[i];
    sampled.insert(from.task);
    auto found = judged_.find(i);
    judge::Sample sample;
    if (found != judged_.end())
      sample = found->second.sample;
    else
      sample.status = "infra:unfinished";
    sample.task = from.task->id;
    sample.level = level_name(*from.task);
    if (found != judged_.end() && !is_decided(sample.status))
      report.undecided.push_back(
          {from.task->id, from.index, from.source, sample.status, found->second.cause});
    metrics.add(std::move(sample));
  }
  for (const task::Task* task : suite_.tasks()) {
    if (!sampled.count(task)) report.unsampled.push_back(task->id);
    if (!options_.only_sampled) metrics.add_task(task->id, level_name(*task));
  }
  report.metrics = metrics.report();
  return report;
}

std::string musa_table(const judge::MetricsReport& metrics) {
  std::vector<std::string> header = {""};
  std::vector<const judge::GroupMetrics*> groups = {&metrics.overall};
  for (const judge::GroupMetrics& level : metrics.levels) groups.push_back(&level);
  for (const judge::GroupMetrics* group : groups) {
    const bool level = group->name.starts_with("level ");
    header.push_back(group == &metrics.overall ? "Overall" : level ? "L" + group->name.substr(6) : base::printable(group->name, false));
  }
  base::Table table(header, std::vector<base::Align>(header.size(), base::Align::kRight));
  auto percent = [](const std::optional<double>& share) { return share ? fmt::format("{:.1f}", 100 * *share) : "–"; };
  for (const auto& [k, mean] : metrics.overall.pass_at) {
    std::vector<std::string> row = {fmt::format("Pass@{0} / Avg@{0} / Faster", k)};
    for (const judge::GroupMetrics* group : groups) {
      const auto pass = group->pass_at.find(k), avg = group->avg_at.find(k);
      row.push_back(fmt::format("{} / {} / {}", percent(pass == group->pass_at.end() ? std::nullopt : pass->second.value),
                                percent(avg == group->avg_at.end() ? std::nullopt : avg->second.value), percent(group->faster_eager)));
    }
    table.add(std::move(row));
  }
  return table.text();
}

std::string bench_text(const BenchReport& report, std::size_t listed) {
  std::string out = judge::metrics_text(report.metrics);
  if (report.other_dialect)
    out += fmt::format("{} samples are CUDA, not MUSA, and count as unsolved ({}).\n", report.other_dialect, kOtherDialect);
  if (!report.unsampled.empty() && !report.metrics.overall.unsampled)
    out += fmt::format("{} of {} tasks have no sample and are left out.\n", report.unsampled.size(),
                       report.suite_tasks);
  if (report.judged < report.samples)
    out += fmt::format("{} of {} samples are not judged yet and count as undecided.\n",
                       report.samples - report.judged, report.samples);
  if (report.undecided.empty()) return out;
  base::Table table({"undecided", "sample", "status", "cause"},
                    {base::Align::kLeft, base::Align::kRight, base::Align::kLeft, base::Align::kLeft});
  for (std::size_t i = 0; i < std::min(listed, report.undecided.size()); ++i) {
    const UndecidedSample& sample = report.undecided[i];
    table.add({base::printable(sample.task, false), std::to_string(sample.index),
               base::printable(sample.status, false),
               base::ellipsize(base::printable(sample.cause, false), kCauseColumns)});
  }
  out += "\n" + table.text();
  if (report.undecided.size() > listed)
    out += fmt::format("… and {} more; --json lists them all\n", report.undecided.size() - listed);
  return out;
}

json to_json(const BenchReport& report) {
  json out = judge::to_json(report.metrics);
  json undecided = json::array();
  for (const auto& sample : report.undecided)
    undecided.push_back({{"task", sample.task},
                         {"sample", sample.index},
                         {"source", sample.source},
                         {"status", sample.status},
                         {"cause", sample.cause}});
  out["undecided"] = std::move(undecided);
  out["unsampled_tasks"] = report.unsampled;
  out["suite_tasks"] = report.suite_tasks;
  out["samples"] = report.samples;
  out["judged"] = report.judged;
  out["other_verdicts"] = report.other_verdicts;
  out["other_dialect"] = report.other_dialect;
  out["all_decided"] = report.all_decided();
  return out;
}

}  // namespace musacoder::cli
