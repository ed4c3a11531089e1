#include "judge/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/terminal.h"
#include "judge/rows.h"

namespace musacoder::judge {

using nlohmann::json;

namespace {

using TaskKey = std::pair<std::string, std::string>;  // level, task

struct Count {
  int n = 0, c = 0, u = 0;  // decided, verified, undecided
};

bool is_decided(const std::string& status) { return status == "ok" || is_candidate_fault(status); }

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
// `weight`: by how much the denominator grows for tasks without samples.
std::optional<double> fast_share(const GroupMetrics& group, const std::vector<double>& speedups, bool timed, double weight, double p) {
  if (group.decided == 0) return std::nullopt;
  if (p <= 0) return static_cast<double>(group.verified) / (static_cast<double>(group.decided) * weight);
  if (speedups.empty()) return timed && group.verified == 0 ? std::optional<double>(0) : std::nullopt;
  const std::size_t denominator = group.decided - (group.verified - speedups.size());
  const auto faster = std::count_if(speedups.begin(), speedups.end(), [&](double speedup) { return speedup > p; });
  return static_cast<double>(faster) / (static_cast<double>(denominator) * weight);
}

void measure_tasks(const std::map<TaskKey, Count>& tasks, int k, GroupMetrics& group) {
  std::vector<double> pass, average, pass_lower, pass_upper, average_lower, average_upper;
  std::size_t left_out = 0;
  auto add = [](int n, int c, int at, std::vector<double>& pass_values, std::vector<double>& average_values) {
    pass_values.push_back(n ? pass_at_k(n, c, at) : 0);
    average_values.push_back(n ? static_cast<double>(c) / n : 0);
  };
  for (const auto& [task, count] : tasks) {
    const int all = count.n + count.u;
    if (all == 0 || all >= k) {
      add(all, count.c, k, pass_lower, average_lower);
      add(all, count.c + count.u, k, pass_upper, average_upper);
    }
    if (all == 0 || count.n >= k) add(count.n, count.c, k, pass, average);
    else ++left_out;
  }
  auto bounded = [&](const std::vector<double>& values, const std::vector<double>& lower, const std::vector<double>& upper) {
    TaskMean mean = mean_of(values, left_out);
    mean.lower = mean_of(lower, 0).value;
    mean.upper = mean_of(upper, 0).value;
    return mean;
  };
  group.pass_at[k] = bounded(pass, pass_lower, pass_upper);
  group.avg_at[k] = bounded(average, average_lower, average_upper);
}

GroupMetrics measure(const std::string& name, const std::vector<const Sample*>& samples, const std::vector<TaskKey>& suite,
                     const MetricsConfig& config, const std::vector<int>& ks) {
  GroupMetrics group;
  group.name = name;
  std::map<TaskKey, Count> tasks;
  for (const TaskKey& task : suite) tasks[task];
  std::vector<double> eager, compile;
  bool timed = false;
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
    if (!is_decided(sample->status)) {
      ++count.u;
      ++group.nulls;
      continue;
    }
    ++count.n;
    ++group.decided;
    timed |= sample->timed;
    if (sample->status != "ok") continue;
    ++count.c;
    ++group.verified;
    if (sample->speedup_eager && std::isfinite(*sample->speedup_eager)) eager.push_back(*sample->speedup_eager);
    if (sample->speedup_compile && std::isfinite(*sample->speedup_compile)) compile.push_back(*sample->speedup_compile);
  }
  group.tasks = tasks.size();
  std::size_t tasks_decided = 0;
  for (const auto& [task, count] : tasks) {
    group.tasks_verified += count.c > 0;
    group.unsampled += count.n + count.u == 0;
    tasks_decided += count.n > 0;
  }
  group.measured_eager = eager.size();
  group.measured_compile = compile.size();
  for (int k : ks) measure_tasks(tasks, k, group);
  const double weight =
      tasks_decided ? static_cast<double>(tasks_decided + group.unsampled) / static_cast<double>(tasks_decided) : 1;
  for (double p : config.fast_p) {
    group.fast_p_eager[p] = fast_share(group, eager, timed, weight, p);
    group.fast_p_compile[p] = fast_share(group, compile, timed, weight, p);
  }
  group.faster_eager = fast_share(group, eager, timed, weight, config.faster_than);
  group.faster_compile = fast_share(group, compile, timed, weight, config.faster_than);
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
                              {"lower", value_of(mean.lower)},
                              {"upper", value_of(mean.upper)},
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
          {"unsampled", g.unsampled},
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

std::string range(const TaskMean& mean) {
  return mean.lower ? fmt::format("{:.1f}–{:.1f} %", 100 * *mean.lower, 100 * *mean.upper) : "–";
}

std::vector<const GroupMetrics*> rows_of(const MetricsReport& report) {
  std::vector<const GroupMetrics*> groups;
  for (const auto& group : report.levels) groups.push_back(&group);
  groups.push_back(&report.overall);
  return groups;
}

base::Table right_aligned(const std::vector<std::string>& header) {
  std::vector<base::Align> align(header.size(), base::Align::kRight);
  align[0] = base::Align::kLeft;
  return base::Table(header, align);
}

std::string level_table(const MetricsReport& report) {
  const GroupMetrics& all = report.overall;
  std::vector<std::string> header = {"", "tasks", "samples", "verified", "undecided"};
  for (const auto& [k, mean] : all.pass_at) header.push_back(fmt::format("Pass@{}", k));
  for (const auto& [k, mean] : all.avg_at) header.push_back(fmt::format("Avg@{}", k));
  for (const char* name : {"Faster eager", "Faster compile", "reward"}) header.push_back(name);
  base::Table table = right_aligned(header);
  for (const GroupMetrics* group : rows_of(report)) {
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
  return table.text();
}

// What the rates would be between "every undecided sample is wrong" and "every one is right".
std::string bounds_table(const MetricsReport& report) {
  std::vector<std::string> header = {"bounds", "undecided"};
  for (const auto& [k, mean] : report.overall.pass_at) header.push_back(fmt::format("Pass@{}", k));
  for (const auto& [k, mean] : report.overall.avg_at) header.push_back(fmt::format("Avg@{}", k));
  base::Table table = right_aligned(header);
  for (const GroupMetrics* group : rows_of(report)) {
    std::vector<std::string> row = {base::printable(group->name, false), fmt::format("{} of {}", group->nulls, group->samples)};
    for (const auto& [k, mean] : group->pass_at) row.push_back(range(mean));
    for (const auto& [k, mean] : group->avg_at) row.push_back(range(mean));
    table.add(std::move(row));
  }
  return table.text();
}

std::string fast_table(const GroupMetrics& all) {
  std::vector<std::string> header = {"fast_p, p ="};
  for (const auto& [p, share] : all.fast_p_eager) header.push_back(fmt::format("{:g}", p));
  base::Table table(header, std::vector<base::Align>(header.size(), base::Align::kRight));
  for (const auto& [name, shares] : {std::pair{"eager", &all.fast_p_eager}, std::pair{"compile", &all.fast_p_compile}}) {
    std::vector<std::string> row = {name};
    for (const auto& [p, share] : *shares) row.push_back(percent(share));
    table.add(std::move(row));
  }
  return table.text();
}

std::string status_table(const GroupMetrics& all) {
  std::vector<std::pair<std::size_t, std::string>> statuses;
  for (const auto& [status, count] : all.statuses) statuses.emplace_back(count, base::printable(status, false));
  std::stable_sort(statuses.begin(), statuses.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  base::Table table({"status", "verdicts", "share"}, {base::Align::kLeft, base::Align::kRight, base::Align::kRight});
  for (const auto& [count, status] : statuses)
    table.add({status, std::to_string(count), percent(static_cast<double>(count) / static_cast<double>(all.samples))});
  return table.text();
}

}  // namespace

double pass_at_k(int n, int c, int k) {
  if (n - c < k) return 1;
  double none = 1;  // C(n−c, k) / C(n, k) as a product that cannot overflow
  for (int i = n - c + 1; i <= n; ++i) none *= 1 - static_cast<double>(k) / i;
  return 1 - none;
}

Sample sample_of(const VerdictRow& row) {
  const Verdict& v = row.verdict;
  return {.task = v.task.empty() ? v.task_hash : v.task,
          .level = row.level,
          .status = v.status,
          .speedup_eager = v.speedup_eager,
          .speedup_compile = v.speedup_compile,
          .reward = v.reward,
          .timed = v.backend != "vgpu"};
}

MetricsReport Metrics::report() const {
  std::map<TaskKey, int> decided;
  std::set<std::string> names;
  for (const Sample& sample : samples_) {
    if (is_decided(sample.status)) ++decided[{sample.level, sample.task}];
    names.insert(sample.level);
  }
  for (const TaskKey& task : tasks_) names.insert(task.first);
  std::vector<int> ks = config_.k;
  if (ks.empty()) {
    ks = {1};
    if (std::any_of(decided.begin(), decided.end(), [](const auto& entry) { return entry.second >= 8; })) ks.push_back(8);
  }
  std::erase_if(ks, [](int k) { return k < 1; });

  MetricsReport report;
  std::vector<const Sample*> all;
  for (const Sample& sample : samples_) all.push_back(&sample);
  report.overall = measure("overall", all, tasks_, config_, ks);
  if (names.size() == 1 && names.count("")) return report;
  std::vector<std::string> levels(names.begin(), names.end());
  std::sort(levels.begin(), levels.end(), level_before);
  for (const std::string& level : levels) {
    std::vector<const Sample*> part;
    for (const Sample& sample : samples_)
      if (sample.level == level) part.push_back(&sample);
    std::vector<TaskKey> suite;
    std::copy_if(tasks_.begin(), tasks_.end(), std::back_inserter(suite), [&](const TaskKey& task) { return task.first == level; });
    report.levels.push_back(measure(level.empty() ? "no level" : "level " + level, part, suite, config_, ks));
  }
  return report;
}

json to_json(const MetricsReport& report) {
  json levels = json::array();
  for (const auto& group : report.levels) levels.push_back(write(group));
  return {{"version", 1}, {"overall", write(report.overall)}, {"levels", std::move(levels)}};
}

std::string metrics_text(const MetricsReport& report) {
  const GroupMetrics& all = report.overall;
  std::string out = level_table(report);
  if (all.faster_eager || all.faster_compile)
    out += "\n" + fast_table(all);
  else
    out += "\nFaster and fast_p need measured times; no verdict here has any (the virtual GPU measures none).\n";
  if (all.nulls) out += "\n" + bounds_table(report);
  out += "\n" + status_table(all);

  if (all.unsampled) out += fmt::format("\n{} of {} tasks have no sample and count as unsolved.", all.unsampled, all.tasks);
  for (const auto& [k, mean] : all.pass_at)
    if (mean.left_out)
      out += fmt::format("\n{} of {} tasks have fewer than {} decided samples and are left out of Pass@{} and Avg@{}.", mean.left_out,
                         all.tasks, k, k, k);
  if (all.nulls)
    out += fmt::format("\n{} of {} verdicts say nothing about a candidate (infra, unsupported, inconclusive, invalid_task) and "
                       "are left out of every rate; the bounds count all of them as wrong, and all as right.", all.nulls, all.samples);
  if (!out.empty() && out.back() != '\n') out += '\n';
  return out;
}

}  // namespace musacoder::judge
