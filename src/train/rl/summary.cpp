#include "train/rl/summary.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "train/config/rl_objective.h"
#include "train/rl/batch.h"

namespace musacoder::train {
namespace {

using nlohmann::json;

json number(double value) { return std::isnan(value) ? json() : json(value); }
double number(const json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

// What a retry shows of an answer: its code where one was found.
std::string shown(const Turn& turn) {
  return turn.code.empty() ? without_reasoning(turn.text)
                           : "```python\n" + turn.code + (turn.code.ends_with('\n') ? "" : "\n") + "```";
}

std::optional<rl::Retry> failed_of(const Group& group, const std::string& id, std::int64_t step) {
  std::vector<rl::Attempt> attempts;
  for (const Trajectory& one : group.trajectories) {
    const Turn& last = one.turns.back();
    // Any turn that got further than -1 is a signal of the group's own.
    double best = std::numeric_limits<double>::quiet_NaN();
    for (const double score : scores(one))
      if (!std::isnan(score)) best = std::isnan(best) ? score : std::max(best, score);
    attempts.push_back({std::isnan(last.reward) ? std::numeric_limits<double>::quiet_NaN() : best,
                        last.status, shown(last), last.feedback});
  }
  std::optional<rl::Retry> out = rl::retry_of(id, attempts);
  if (!out) return out;
  out->step = step;
  out->retries = group.start.retry ? group.start.retry->retries : 0;
  return out;
}

json retry_json(const rl::Retry& r) {
  return json::array({r.prompt_id, r.candidate, r.feedback, r.status, r.retries, r.step});
}
rl::Retry retry_from(const json& j) {
  const auto text = [&](std::size_t i) { return j.at(i).get<std::string>(); };
  return {text(0), text(1), text(2), text(3), j.at(4).get<int>(), j.at(5).get<std::int64_t>()};
}

double mean(const std::vector<double>& values) {
  double out = 0;
  for (const double x : values) out += x / static_cast<double>(values.size());
  return out;
}

}  // namespace

bool Summary::null() const {
  return std::all_of(rewards.begin(), rewards.end(), [](double r) { return std::isnan(r); });
}

bool Summary::equal() const {
  std::set<double> seen;
  for (const double r : rewards)
    if (!std::isnan(r)) seen.insert(r);
  return seen.size() < 2;
}

std::vector<Summary> summaries(const std::vector<Group>& groups, const std::vector<RlTask>& tasks,
                               const RlConfig& config, std::int64_t step) {
  std::vector<Summary> out;
  for (const Group& group : groups) {
    Summary s{.serial = group.start.serial,
              .first_version = group.first_version(),
              .retry = group.start.retry.has_value(),
              .turn_limit = group.start.turns};
    for (const Trajectory& one : group.trajectories) {
      s.rewards.push_back(trajectory_return(one, config));
      s.scores.push_back(scores(one));
      s.lengths.push_back(static_cast<std::int64_t>(one.turns[0].answer.size()));
      s.clipped += one.turns[0].clipped;
      const Turn& last_trained = config.train_turns == "first" ? one.turns.front() : one.turns.back();
      s.truncated += config.mask_truncated && !std::isnan(s.rewards.back()) && last_trained.clipped;
      s.control += one.end == End::kControl;
      s.context += one.end == End::kContext;
      for (const Turn& turn : one.turns) {
        s.statuses.push_back(turn.status);
        s.tokens += static_cast<std::int64_t>(turn.answer.size());
        s.infra_tries += turn.tries - 1;
        s.verify_s += turn.verify_s;
        s.verify_max_s = std::max(s.verify_max_s, turn.verify_s);
        for (const float logprob : turn.logprobs) s.logprob_sum += logprob;
        for (const std::int64_t version : turn.versions) {
          s.age_sum += static_cast<double>(step - version);
          s.age_max = std::max(s.age_max, step - version);
        }
      }
    }
    s.failed = failed_of(group, tasks[group.start.task].id, step);
    out.push_back(std::move(s));
  }
  return out;
}

std::string to_json(const std::vector<Summary>& all) {
  json out = json::array();
  for (const Summary& s : all) {
    json rewards = json::array(), scores = json::array();
    for (const double r : s.rewards) rewards.push_back(number(r));
    for (const auto& turns : s.scores) {
      json& row = scores.emplace_back(json::array());
      for (const double r : turns) row.push_back(number(r));
    }
    out.push_back({{"serial", s.serial},
                   {"first_version", s.first_version},
                   {"retry", s.retry},
                   {"rewards", rewards},
                   {"scores", scores},
                   {"statuses", s.statuses},
                   {"lengths", s.lengths},
                   {"clipped", s.clipped},
                   {"tokens", s.tokens},
                   {"control", s.control},
                   {"context", s.context},
                   {"truncated", s.truncated},
                   {"turn_limit", s.turn_limit},
                   {"logprob_sum", s.logprob_sum},
                   {"age_sum", s.age_sum},
                   {"age_max", s.age_max},
                   {"infra_tries", s.infra_tries},
                   {"verify_s", s.verify_s},
                   {"verify_max_s", s.verify_max_s},
                   {"failed", s.failed ? retry_json(*s.failed) : json()}});
  }
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<std::vector<Summary>> summaries_from_json(const std::string& text) try {
  std::vector<Summary> out;
  for (const json& j : json::parse(text)) {
    Summary s{.serial = j.at("serial").get<std::uint64_t>(),
              .first_version = j.at("first_version").get<std::int64_t>(),
              .retry = j.at("retry").get<bool>()};
    for (const json& r : j.at("rewards")) s.rewards.push_back(number(r));
    for (const json& turns : j.at("scores")) {
      auto& row = s.scores.emplace_back();
      for (const json& r : turns) row.push_back(number(r));
    }
    s.statuses = j.at("statuses").get<std::vector<std::string>>();
    s.lengths = j.at("lengths").get<std::vector<std::int64_t>>();
    for (const auto& [name, at] :
         {std::pair("clipped", &s.clipped), std::pair("tokens", &s.tokens), std::pair("control", &s.control),
          std::pair("context", &s.context), std::pair("truncated", &s.truncated),
          std::pair("turn_limit", &s.turn_limit), std::pair("age_max", &s.age_max),
          std::pair("infra_tries", &s.infra_tries)})
      *at = j.at(name).get<std::int64_t>();
    for (const auto& [name, at] :
         {std::pair("logprob_sum", &s.logprob_sum), std::pair("age_sum", &s.age_sum),
          std::pair("verify_s", &s.verify_s), std::pair("verify_max_s", &s.verify_max_s)})
      *at = j.at(name).get<double>();
    if (!j.at("failed").is_null()) s.failed = retry_from(j["failed"]);
    out.push_back(std::move(s));
  }
  return out;
} catch (const nlohmann::json::exception& error) {
  return fail(Code::kInternal, "another process told of its groups in a form that cannot be read: {}",
              error.what());
}

void add_numbers(Numbers& numbers, const std::vector<Summary>& all, const RlConfig& config) {
  std::vector<double> returns;
  std::vector<std::vector<double>> scores, retry_scores;
  std::map<std::string, double> classes;
  double tokens = 0, logprobs = 0, ages = 0, age_max = 0, clipped = 0, samples = 0, length = 0,
         length_max = 0, equal = 0, failed = 0, right = 0, retries = 0, nulls = 0, verdicts = 0, verify = 0,
         verify_max = 0, infra = 0, control = 0, context = 0;
  for (const Summary& s : all) {
    for (const double r : s.rewards) {
      if (std::isnan(r))
        ++nulls;
      else
        returns.push_back(r);
    }
    auto& into = s.retry ? retry_scores : scores;
    into.insert(into.end(), s.scores.begin(), s.scores.end());
    for (const std::string& status : s.statuses) ++classes[status.substr(0, status.find(':'))];
    for (const std::int64_t one : s.lengths) {
      length += static_cast<double>(one);
      length_max = std::max(length_max, static_cast<double>(one));
    }
    samples += static_cast<double>(s.lengths.size());
    verdicts += static_cast<double>(s.statuses.size());
    tokens += static_cast<double>(s.tokens);
    clipped += static_cast<double>(s.clipped);
    infra += static_cast<double>(s.infra_tries);
    control += static_cast<double>(s.control);
    context += static_cast<double>(s.context);
    logprobs += s.logprob_sum;
    ages += s.age_sum;
    age_max = std::max(age_max, static_cast<double>(s.age_max));
    verify += s.verify_s;
    verify_max = std::max(verify_max, s.verify_max_s);
    equal += s.equal();
    failed += s.failed.has_value();
    retries += s.retry;
    right += !s.scores.empty() && std::all_of(s.scores.begin(), s.scores.end(), [](const auto& turns) {
      return !turns.empty() && turns[0] >= 1;
    });
  }
  const double groups = std::max<double>(1, static_cast<double>(all.size()));
  const double average = returns.empty() ? 0 : mean(returns);
  double squares = 0;
  for (const double r : returns) squares += (r - average) * (r - average);
  const auto put = [&](const char* name, double value) { numbers.emplace_back(name, value); };
  put("reward/mean", average);
  put("reward/std", returns.size() > 1 ? std::sqrt(squares / static_cast<double>(returns.size() - 1)) : 0);
  const rl::TurnMetrics turns = rl::turn_metrics(scores, echo_of(config));
  put("turns/first_accuracy", turns.first_accuracy);
  put("turns/best_accuracy", turns.best_accuracy);
  put("turns/first_score", turns.first_score);
  put("turns/best_score", turns.best_score);
  put("turns/to_success", turns.turn_to_success);
  put("turns/mean", turns.turns);
  put("groups/all_failed", failed / groups);
  put("groups/all_right", right / groups);
  put("groups/equal", equal / groups);
  put("groups/retries", retries);
  if (!retry_scores.empty())
    put("retry/accuracy", rl::turn_metrics(retry_scores, echo_of(config)).first_accuracy);
  put("rollout/entropy", tokens > 0 ? -logprobs / tokens : 0);
  put("rollout/length", samples > 0 ? length / samples : 0);
  put("rollout/length_max", length_max);
  put("rollout/clipped_share", samples > 0 ? clipped / samples : 0);
  put("rollout/control_text", control);
  put("rollout/context_full", context);
  put("staleness/mean", tokens > 0 ? ages / tokens : 0);
  put("staleness/max", age_max);
  put("verify/null", nulls);
  put("verify/tried_again", infra);
  put("verify/seconds", verdicts > 0 ? verify / verdicts : 0);
  put("verify/seconds_max", verify_max);
  for (const char* name : {"ok", "compile_error", "runtime_error", "correctness_error", "cheating",
                           "unsupported", "inconclusive", "invalid_task", "infra"})
    put(fmt::format("status/{}", name).c_str(), classes[name]);
}

}  // namespace musacoder::train
