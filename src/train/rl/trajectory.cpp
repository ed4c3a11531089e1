#include "train/rl/trajectory.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace musacoder::train {
namespace {

using nlohmann::json;

constexpr const char* kEnds[] = {"none", "verified", "turns", "null", "context", "control"};

// JSON has no NaN.
json number(double value) { return std::isnan(value) ? json() : json(value); }
double number(const json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

// Floats by their bits: a decimal text would have to be read back as another type.
json bits_of(const std::vector<float>& values) {
  json out = json::array();
  for (const float value : values) out.push_back(std::bit_cast<std::uint32_t>(value));
  return out;
}
std::vector<float> floats_of(const json& bits) {
  std::vector<float> out;
  for (const json& one : bits) out.push_back(std::bit_cast<float>(one.get<std::uint32_t>()));
  return out;
}

json turn_json(const Turn& t) {
  return {{"prompt", t.prompt},
          {"answer", t.answer},
          {"logprobs", bits_of(t.logprobs)},
          {"versions", t.versions},
          {"text", t.text},
          {"clipped", t.clipped},
          {"reward", number(t.reward)},
          {"status", t.status},
          {"feedback", t.feedback},
          {"code", t.code},
          {"verified", t.verified},
          {"infra", t.infra},
          {"speedup", number(t.speedup)},
          {"verify_s", t.verify_s},
          {"tries", t.tries}};
}

Turn turn_of(const json& j) {
  Turn t;
  t.prompt = j.at("prompt").get<std::vector<llm::TokenId>>();
  t.answer = j.at("answer").get<std::vector<llm::TokenId>>();
  t.logprobs = floats_of(j.at("logprobs"));
  t.versions = j.at("versions").get<std::vector<std::int64_t>>();
  t.text = j.at("text").get<std::string>();
  t.clipped = j.at("clipped").get<bool>();
  t.reward = number(j.at("reward"));
  t.status = j.at("status").get<std::string>();
  t.feedback = j.at("feedback").get<std::string>();
  t.code = j.at("code").get<std::string>();
  t.verified = j.at("verified").get<bool>();
  t.infra = j.at("infra").get<bool>();
  t.speedup = number(j.at("speedup"));
  t.verify_s = j.at("verify_s").get<double>();
  t.tries = j.at("tries").get<int>();
  if (t.logprobs.size() != t.answer.size() || t.versions.size() != t.answer.size())
    throw std::invalid_argument("a turn's tokens, log-probabilities and versions differ in number");
  return t;
}

GroupStart start_of(const json& j) {
  GroupStart out{.serial = j.at("serial").get<std::uint64_t>(),
                 .task = j.at("task").get<std::size_t>(),
                 .turns = j.at("turns").get<std::int64_t>()};
  out.evaluation = j.at("evaluation").get<bool>();
  if (const json& r = j.at("retry"); !r.is_null()) {
    const auto text = [&](const char* key) { return r.at(key).get<std::string>(); };
    out.retry = rl::Retry{text("prompt_id"), text("candidate"),          text("feedback"),
                          text("status"),    r.at("retries").get<int>(), r.at("step").get<std::int64_t>()};
  }
  return out;
}

tl::unexpected<Error> not_a(const char* what, const std::exception& error) {
  return fail(Code::kInvalidArgument, "not {} of a checkpoint: {}", what, error.what());
}

}  // namespace

const char* end_name(End end) { return kEnds[static_cast<int>(end)]; }

std::int64_t Group::first_version() const {
  std::int64_t out = std::numeric_limits<std::int64_t>::max();
  for (const Trajectory& one : trajectories)
    if (!one.turns.empty())
      for (const std::int64_t version : one.turns[0].versions) out = std::min(out, version);
  return out;
}

std::vector<double> scores(const Trajectory& trajectory) {
  std::vector<double> out;
  for (const Turn& turn : trajectory.turns) out.push_back(turn.reward);
  return out;
}

json to_json(const GroupStart& s) {
  json out = {{"serial", s.serial},
              {"task", s.task},
              {"turns", s.turns},
              {"evaluation", s.evaluation},
              {"retry", nullptr}};
  if (s.retry)
    out["retry"] = {{"prompt_id", s.retry->prompt_id}, {"candidate", s.retry->candidate},
                    {"feedback", s.retry->feedback},   {"status", s.retry->status},
                    {"retries", s.retry->retries},     {"step", s.retry->step}};
  return out;
}

Result<GroupStart> start_from_json(const json& j) try {
  return start_of(j);
} catch (const std::exception& error) {
  return not_a("a prompt", error);
}

json to_json(const Group& group) {
  json trajectories = json::array();
  for (const Trajectory& one : group.trajectories) {
    json turns = json::array();
    for (const Turn& turn : one.turns) turns.push_back(turn_json(turn));
    trajectories.push_back({{"turns", std::move(turns)}, {"end", end_name(one.end)}});
  }
  return {{"start", to_json(group.start)}, {"trajectories", std::move(trajectories)}};
}

Result<Group> group_from_json(const json& j) try {
  Group out{.start = start_of(j.at("start"))};
  for (const json& one : j.at("trajectories")) {
    Trajectory& to = out.trajectories.emplace_back();
    for (const json& turn : one.at("turns")) to.turns.push_back(turn_of(turn));
    const auto* at = std::find(std::begin(kEnds), std::end(kEnds), one.at("end").get<std::string>());
    if (at == std::end(kEnds)) throw std::invalid_argument("an end that is not known");
    to.end = static_cast<End>(at - std::begin(kEnds));
  }
  return out;
} catch (const std::exception& error) {
  return not_a("a group", error);
}

}  // namespace musacoder::train
