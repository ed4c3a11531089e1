#include "train/rl/evaluation.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

namespace musacoder::train {
namespace {

constexpr double kFasterThan = 1.1;  // MusaCoder paper, section 5.2

}  // namespace

EvaluatedTask evaluated(const Group& group, const std::vector<RlTask>& tasks) {
  const RlTask& task = tasks[group.start.task];
  EvaluatedTask out{.id = task.id, .family = task.family};
  for (const Trajectory& one : group.trajectories) {
    const Turn& last = one.turns.back();
    if (one.end == End::kNull) {
      ++out.null;
      continue;
    }
    ++out.decided;
    out.verified += last.verified;
    out.first += one.turns.front().verified;
    out.measured += last.verified && !std::isnan(last.speedup);
    out.faster += last.verified && last.speedup > kFasterThan;
  }
  return out;
}

nlohmann::json to_json(const EvaluatedTask& t) {
  return {t.id, t.family, t.decided, t.verified, t.first, t.null, t.faster, t.measured};
}

EvaluatedTask evaluated_from_json(const nlohmann::json& j) {
  const auto number = [&](std::size_t i) { return j.at(i).get<std::int64_t>(); };
  return {j.at(0).get<std::string>(),
          j.at(1).get<std::string>(),
          number(2),
          number(3),
          number(4),
          number(5),
          number(6),
          number(7)};
}

double pass_at(std::int64_t decided, std::int64_t verified, std::int64_t k) {
  if (decided - verified < k) return 1;
  double all_fail = 1;
  for (std::int64_t i = decided - verified + 1; i <= decided; ++i)
    all_fail *= 1 - static_cast<double>(k) / static_cast<double>(i);
  return 1 - all_fail;
}

Numbers evaluation_numbers(const std::vector<EvaluatedTask>& tasks, std::int64_t samples) {
  struct Mean {
    double sum = 0, count = 0;
    void add(double x) {
      sum += x;
      ++count;
    }
    double value() const { return count > 0 ? sum / count : 0; }
  } one, most, average, first;
  std::map<std::string, Mean> families;
  double null = 0, faster = 0, measured = 0, unmeasured = 0, decided = 0;
  for (const EvaluatedTask& t : tasks) {
    null += static_cast<double>(t.null);
    if (t.decided == 0) continue;
    const double share = static_cast<double>(t.verified) / static_cast<double>(t.decided);
    average.add(share);
    families[t.family].add(share);
    first.add(static_cast<double>(t.first) / static_cast<double>(t.decided));
    one.add(pass_at(t.decided, t.verified, 1));
    if (t.decided >= samples) most.add(pass_at(t.decided, t.verified, samples));
    decided += static_cast<double>(t.decided);
    faster += static_cast<double>(t.faster);
    measured += static_cast<double>(t.measured);
    unmeasured += static_cast<double>(t.verified - t.measured);
  }
  Numbers out = {
      {"eval/pass@1", one.value()}, {"eval/tasks", static_cast<double>(tasks.size())}, {"eval/null", null}};
  if (samples > 1) {
    out.emplace_back(fmt::format("eval/pass@{}", samples), most.value());
    out.emplace_back(fmt::format("eval/avg@{}", samples), average.value());
  }
  out.emplace_back("eval/first_turn", first.value());
  if (measured > 0) out.emplace_back("eval/faster", faster / (decided - unmeasured));
  if (families.size() > 1)
    for (const auto& [name, mean] : families)
      out.emplace_back("eval/family/" + (name.empty() ? "none" : name), mean.value());
  return out;
}

}  // namespace musacoder::train
