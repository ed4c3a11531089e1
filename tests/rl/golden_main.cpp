// JSON in, JSON out: what src/rl computes, for comparison with python/musacoder/algorithms.py and other implementations.
//   {"objective": {"preset", "settings", "current", "rollout", "old"?, "reference"?, "mask", "response", "responses", "advantages"}}
//   {"advantages": {"rewards", "groups", "epsilon"}}     {"echo": {"scores": [[…], …], "alpha"}}     {"retry": {"groups": [[attempt, …], …]}}
#include <cmath>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "llm/torch.h"
#include "rl/advantage.h"
#include "rl/objective.h"
#include "rl/prime_echo.h"
#include "rl/retry_buffer.h"

using nlohmann::json;
using namespace musacoder::rl;

namespace {

double number(const json& x) { return x.is_null() ? std::nan("") : x.get<double>(); }
json or_null(double x) { return std::isnan(x) ? json() : json(x); }
at::Tensor floats(const json& values, at::ScalarType type) {
  std::vector<double> out;
  for (const json& one : values) out.push_back(number(one));
  return at::tensor(out, at::kDouble).to(type);
}
at::Tensor integers(const json& values) { return at::tensor(values.get<std::vector<std::int64_t>>(), at::kLong); }
std::vector<double> list(const at::Tensor& x) {
  const at::Tensor wide = x.detach().to(at::kDouble).contiguous();
  return {wide.data_ptr<double>(), wide.data_ptr<double>() + wide.numel()};
}

json run_objective(const json& in) {
  const auto type = at::kFloat;
  Tokens t;
  t.current = floats(in.at("current"), type).requires_grad_();
  for (auto [name, place] : {std::pair{"old", &t.old}, {"rollout", &t.rollout}, {"reference", &t.reference}})
    if (in.contains(name)) *place = floats(in.at(name), type);
  t.mask = floats(in.at("mask"), type);
  t.response = integers(in.at("response"));
  t.responses = in.at("responses");
  ObjectiveConfig config = *preset(in.at("preset"));
  const json settings = in.value("settings", json::object());
  config.sequence_mask.delta = settings.value("delta", config.sequence_mask.delta);
  config.clip.low = settings.value("clip_low", config.clip.low);
  config.clip.high = settings.value("clip_high", config.clip.high);
  config.kl_coefficient = settings.value("kl_coefficient", 0.0);
  config.token_constant = settings.value("token_constant", 1.0);
  const Objective o = objective(t, floats(in.at("advantages"), at::kDouble), {}, config);
  o.loss.backward();
  return {{"loss", o.loss.item<double>()}, {"gradient", list(t.current.grad())}, {"kept", list(o.kept)}, {"metrics", o.metrics}};
}

}  // namespace

int main() {
  const json in = json::parse(std::cin);
  json out;
  if (in.contains("objective")) out = run_objective(in["objective"]);
  if (in.contains("advantages")) {
    const json& a = in["advantages"];
    const Advantages got = group_advantages(floats(a.at("rewards"), at::kDouble), integers(a.at("groups")), {.epsilon = a.at("epsilon")});
    out = {{"values", list(got.values)}, {"valid", list(got.valid)}};
  }
  if (in.contains("echo"))
    for (const json& scores : in["echo"].at("scores")) {
      std::vector<double> values;
      for (const json& s : scores) values.push_back(number(s));
      const Echo echo = prime_echo(values, {.alpha = in["echo"].at("alpha")});
      out.push_back({or_null(echo.reward), or_null(echo.bonus), or_null(echo.best), echo.success_turn});
    }
  if (in.contains("retry")) {
    RetryBuffer buffer({.capacity = 3, .most_retries = 2});
    int at = 0;
    for (const json& group : in["retry"].at("groups")) {
      std::vector<Attempt> attempts;
      for (const json& one : group) attempts.push_back({number(one.at("reward")), one.at("status"), one.at("candidate"), one.at("feedback")});
      if (auto entry = retry_of("p" + std::to_string(at++ % 5), attempts)) buffer.push(std::move(*entry));
      if (at % 3 == 0)
        if (auto drawn = buffer.draw()) buffer.push(std::move(*drawn));
    }
    out = json::parse(buffer.to_json());
  }
  std::puts(out.dump().c_str());
  return 0;
}
