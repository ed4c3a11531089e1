#include "judge/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/terminal.h"
#include "judge/verdict.h"

namespace musacoder::judge {

using nlohmann::json;

namespace {

struct Count {
  int n = 0, c = 0;
};

TaskMean mean_of(const std::vector<double>& values, std::size_t left_out) {
  TaskMean mean;
  mean.tasks = values.size();
  mean.left_out = left_out;
  if (values.empty()) return mean;
  double sum = 0, squares = 0;
  for (double value : values) sum += value;
  const double average = sum / static_cast<double>(values.size());
  for (double value : values) squares += (value - average) * (value - average);
  mean.value = average;
  if (values.size() > 1) {
    const double n = static_cast<double>(values.size());
    mean.standard_error = std::sqrt(squares / (n - 1) / n);
  }
  return mean;
}

// Share of the decided samples that are verified and faster than p; unmeasured verified samples leave the denominator.
std::optional<double> fast_share(std::size_t decided, std::size_t verified, const std::vector<double>& speedups, double p) {
  if (p <= 0) return decided ? std::optional<double>(static_cast<double>(verified) / static_cast<double>(decided)) : std::nullopt;
  if (speedups.empty()) return std::nullopt;
  const std::size_t denominator = decided - (verified - speedups.size());
  const auto faster = std::count_if(speedups.begin(), speedups.end(), [&](double speedup) { return speedup > p; });
  return static_cast<double>(faster) / static_cast<double>(denominator);
}

GroupMetrics measure(const std::string& name, const std::vector<const Sample*>& samples, const MetricsConfig& config,
                     const std::vector<int>& ks) {
  GroupMetrics group;
  group.name = name;
  std::map<std::pair<std::string, std::string>, Count> tasks;
  std::vector<double> eager, compile;
  double rewards = 0;
  std::size_t rewarded = 0;
  for (const Sample* sample : samples) {
    ++group.samples;
    const std::string name_of_class = status_class(sample->status);
    ++group.classes[name_of_class];
    ++group.statuses[sample->status];
    Count& count = tasks[{sample->level, sample->task}];
    if (sample->reward) {
      rewards += *sample->reward;
      ++rewarded;
    }
    const bool verified = sample->status == "ok";
    if (!verified && !is_candidate_fault(sample->status)) {
      ++group.nulls;
      continue;
    }
    ++count.n;
    ++group.decided;
    if (!verified) continue;
    ++count.c;
    ++group.verified;
    if (sample->speedup_eager && std::isfinite(*sample->speedup_eager)) eager.push_back(*sample->speedup_eager);
    if (sample->speedup_compile && std::isfinite(*sample->speedup_compile)) compile.push_back(*sample->speedup_compile);
  }
  group.tasks = tasks.size();
  for (const auto& [task, count] : tasks) group.tasks_verified += count.c > 0;
  group.measured_eager = eager.size();
  group.measured_compile = compile.size();
  for (int k : ks) {
    std::vector<double> pass, average;
    std::size_t left_out = 0;
    for (const auto& [task, count] : tasks) {
      if (count.n < k) {
        ++left_out;
        continue;
      }
      pass.push_back(pass_at_k(count.n, count.c, k));
      average.push_back(static_cast<double>(count.c) / count.n);
    }
    group.pass_at[k] = mean_of(pass, left_out);
    group.avg_at[k] = mean_of(average, left_out);
  }
  for (double p : config.fast_p) {
    group.fast_p_eager[p] = fast_share(group.decided, group.verified, eager, p);
    group.fast_p_compile[p] = fast_share(group.decided, group.verified, compile, p);
  }
  group.faster_eager = fast_share(group.decided, group.verified, eager, config.faster_than);
  group.faster_compile = fast_share(group.decided, group.verified, compile, config.faster_than);
  if (rewarded) group.mean_reward = rewards / static_cast<double>(rewarded);
  return group;
}

// Numbers before words, by value: "2" before "10".
bool level_before(const std::string& a, const std::string& b) {
  auto number = [](const std::string& text) {
    return !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == std::string::npos ? std::stol(text)
                                                                                                        : 1'000'000'000L;
  };
  return std::make_pair(number(a), a) < std::make_pair(number(b), b);
}

json value_of(const std::optional<double>& value) { return value ? json(*value) : json(nullptr); }

json write(const std::map<int, TaskMean>& means) {
  json out = json::object();
  for (const auto& [k, mean] : means)
    out[std::to_string(k)] = {{"value", value_of(mean.value)},
                              {"standard_error", mean.standard_error},
                              {"tasks", mean.tasks},
                              {"left_out", mean.left_out}};
  return out;
}

json write(const std::map<double, std::optional<double>>& shares) {
  json out = json::object();
  for (const auto& [p, share] : shares) out[fmt::format("{:g}", p)] = value_of(share);
  return out;
}

json write(const GroupMetrics& g) {
  return {{"name", g.name},
          {"tasks", g.tasks},
          {"tasks_verified", g.tasks_verified},
          {"samples", g.samples},
          {"decided", g.decided},
          {"verified", g.verified},
          {"nulls", g.nulls},
          {"measured", {{"eager", g.measured_eager}, {"compile", g.measured_compile}}},
          {"pass_at", write(g.pass_at)},
          {"avg_at", write(g.avg_at)},
          {"faster", {{"eager", value_of(g.faster_eager)}, {"compile", value_of(g.faster_compile)}}},
          {"fast_p", {{"eager", write(g.fast_p_eager)}, {"compile", write(g.fast_p_compile)}}},
          {"mean_reward", value_of(g.mean_reward)},
          {"classes", g.classes},
          {"statuses", g.statuses}};
}

std::string percent(const std::optional<double>& value) { return value ? fmt::format("{:.1f} %", 100 * *value) : "–"; }

}  // namespace

double pass_at_k(int n, int c, int k) {
  if (n - c < k) return 1;
  double none = 1;  // C(n−c, k) / C(n, k) as a product that cannot overflow
  for (int i = n - c + 1; i <= n; ++i) none *= 1 - static_cast<double>(k) / i;
  return 1 - none;
}

MetricsReport Metrics::report() const {
  std::map<std::pair<std::string, std::string>, int> decided;
  std::set<std::string> names;
  for (const Sample& sample : samples_) {
    if (sample.status == "ok" || is_candidate_fault(sample.status)) ++decided[{sample.level, sample.task}];
    names.insert(sample.level);
  }
  std::vector<int> ks = config_.k;
  if (ks.empty()) {
    ks = {1};
    if (std::any_of(decided.begin(), decided.end(), [](const auto& entry) { return entry.second >= 8; })) ks.push_back(8);
  }
  std::erase_if(ks, [](int k) { return k < 1; });

  MetricsReport report;
  std::vector<const Sample*> all;
  for (const Sample& sample : samples_) all.push_back(&sample);
  report.overall = measure("overall", all, config_, ks);
  if (names.size() == 1 && names.count("")) return report;
  std::vector<std::string> levels(names.begin(), names.end());
  std::sort(levels.begin(), levels.end(), level_before);
  for (const std::string& level : levels) {
    std::vector<const Sample*> part;
    for (const Sample& sample : samples_)
      if (sample.level == level) part.push_back(&sample);
    report.levels.push_back(measure(level.empty() ? "no level" : "level " + level, part, config_, ks));
  }
  return report;
}

json to_json(const MetricsReport& report) {
  json levels = json::array();
  for (const auto& group : report.levels) levels.push_back(write(group));
  return {{"version", 1}, {"overall", write(report.overall)}, {"levels", std::move(levels)}};
}

std::string metrics_text(const MetricsReport& report) {
  std::vector<const GroupMetrics*> groups;
  for (const auto& group : report.levels) groups.push_back(&group);
  groups.push_back(&report.overall);

  std::vector<std::string> header = {"", "tasks", "samples", "verified", "nulls"};
  for (const auto& [k, mean] : report.overall.pass_at) header.push_back(fmt::format("Pass@{}", k));
  for (const auto& [k, mean] : report.overall.avg_at) header.push_back(fmt::format("Avg@{}", k));
  for (const char* name : {"Faster eager", "Faster compile", "reward"}) header.push_back(name);
  std::vector<base::Align> align(header.size(), base::Align::kRight);
  align[0] = base::Align::kLeft;
  base::Table table(header, align);
  for (const GroupMetrics* group : groups) {
    std::vector<std::string> row = {base::printable(group->name, false), std::to_string(group->tasks),
                                    std::to_string(group->samples), std::to_string(group->verified),
                                    std::to_string(group->nulls)};
    for (const auto& [k, mean] : group->pass_at) row.push_back(percent(mean.value));
    for (const auto& [k, mean] : group->avg_at) row.push_back(percent(mean.value));
    row.push_back(percent(group->faster_eager));
    row.push_back(percent(group->faster_compile));
    row.push_back(group->mean_reward ? fmt::format("{:+.2f}", *group->mean_reward) : "–");
    table.add(std::move(row));
  }
  std::string out = table.text();

  const GroupMetrics& all = report.overall;
  if (all.measured_eager || all.measured_compile) {
    std::vector<std::string> fast_header = {"fast_p, p ="};
    for (const auto& [p, share] : all.fast_p_eager) fast_header.push_back(fmt::format("{:g}", p));
    base::Table fast(fast_header, std::vector<base::Align>(fast_header.size(), base::Align::kRight));
    for (const auto& [name, shares] : {std::pair{"eager", &all.fast_p_eager}, std::pair{"compile", &all.fast_p_compile}}) {
      std::vector<std::string> row = {name};
      for (const auto& [p, share] : *shares) row.push_back(percent(share));
      fast.add(std::move(row));
    }
    out += "\n" + fast.text();
  } else {
    out += "\nFaster and fast_p need measured times; no verdict here has any (the virtual GPU measures none).\n";
  }

  std::vector<std::pair<std::size_t, std::string>> statuses;
  for (const auto& [status, count] : all.statuses) statuses.emplace_back(count, base::printable(status, false));
  std::stable_sort(statuses.begin(), statuses.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  base::Table mix({"status", "verdicts", "share"}, {base::Align::kLeft, base::Align::kRight, base::Align::kRight});
  for (const auto& [count, status] : statuses)
    mix.add({status, std::to_string(count), percent(static_cast<double>(count) / static_cast<double>(all.samples))});
  out += "\n" + mix.text();

  for (const auto& [k, mean] : all.pass_at)
    if (mean.left_out)
      out += fmt::format("\n{} of {} tasks have fewer than {} decided samples and are left out of Pass@{} and Avg@{}.", mean.left_out,
                         all.tasks, k, k, k);
  if (all.nulls)
    out += fmt::format("\n{} of {} verdicts say nothing about a candidate (infra, unsupported, inconclusive, invalid_task) and "
                       "are left out of every rate.", all.nulls, all.samples);
  if (!out.empty() && out.back() != '\n') out += '\n';
  return out;
}

}  // namespace musacoder::judge
