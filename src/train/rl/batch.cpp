#include "train/rl/batch.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "train/config/rl_objective.h"

namespace musacoder::train {

std::int64_t Response::tokens() const {
  std::int64_t out = 0;
  for (const Turn* turn : trained) out += static_cast<std::int64_t>(turn->answer.size());
  return out;
}

std::int64_t Response::length() const {
  std::int64_t out = tokens();
  for (const Turn* turn : trained) out += static_cast<std::int64_t>(turn->prompt.size());
  return out;
}

double trajectory_return(const Trajectory& trajectory, const RlConfig& config) {
  const std::vector<double> all = scores(trajectory);
  // A null ends what counts.
  const std::vector<double> counted(
      all.begin(), std::find_if(all.begin(), all.end(), [](double s) { return std::isnan(s); }));
  if (counted.empty()) return std::numeric_limits<double>::quiet_NaN();
  double out = counted.front();
  if (config.reward == "echo") out = rl::prime_echo(counted, echo_of(config)).reward;
  if (config.reward == "last") out = counted.back();
  if (config.reward == "best") out = *std::max_element(counted.begin(), counted.end());
  if (config.overlong_cache > 0) {
    const at::Tensor length =
        at::full({1}, static_cast<std::int64_t>(trajectory.turns[0].answer.size()), at::kLong);
    out += rl::overlong_penalty(length, config.response_tokens, config.overlong_cache).item<double>();
  }
  return out;
}

std::vector<Response> score(const std::vector<Group>& groups, const RlConfig& config) {
  std::vector<Response> out;
  std::vector<double> rewards;
  std::vector<std::int64_t> owners;
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (const Trajectory& one : groups[g].trajectories) {
      Response response{.group = &groups[g], .trajectory = &one, .reward = trajectory_return(one, config)};
      for (const Turn& turn : one.turns) {
        if (turn.answer.empty()) continue;
        response.trained.push_back(&turn);
        if (config.train_turns == "first") break;
      }
      rewards.push_back(response.reward);
      owners.push_back(static_cast<std::int64_t>(g));
      out.push_back(std::move(response));
    }
  if (out.empty()) return out;
  const rl::Advantages advantages = rl::group_advantages(at::tensor(rewards, at::kDouble),
                                                         at::tensor(owners, at::kLong), advantage_of(config));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    Response& one = out[i];
    one.advantage = advantages.values[at].item<double>();
    one.informative = advantages.informative[at].item<bool>();
    const bool truncated = config.mask_truncated && !one.trained.empty() && one.trained.back()->clipped;
    one.valid = advantages.valid[at].item<bool>() && !truncated && !one.trained.empty();
  }
  return out;
}

namespace {

Pass pass_of(const std::vector<Response>& responses, const std::vector<std::size_t>& members,
             std::int64_t version) {
  Pass out{.responses = members};
  std::vector<std::vector<std::int64_t>> sequences;
  std::vector<std::int64_t> targets, owner;
  std::vector<float> rollout;
  std::vector<double> advantage;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const Response& one = responses[members[i]];
    advantage.push_back(one.advantage);
    for (const Turn* turn : one.trained) {
      auto& sequence = sequences.emplace_back(turn->prompt.begin(), turn->prompt.end());
      // Each token of the answer is predicted by the one before it; nothing is asked of the last.
      targets.insert(targets.end(), sequence.size() - 1, -1);
      targets.insert(targets.end(), turn->answer.begin(), turn->answer.end());
      sequence.insert(sequence.end(), turn->answer.begin(), turn->answer.end() - 1);
      rollout.insert(rollout.end(), turn->logprobs.begin(), turn->logprobs.end());
      owner.insert(owner.end(), turn->answer.size(), static_cast<std::int64_t>(i));
      for (const std::int64_t sampled : turn->versions) out.ages.push_back(version - sampled);
    }
  }
  out.packed = llm::pack(sequences);
  out.targets = at::tensor(targets, at::kLong);
  out.rollout = at::tensor(rollout, at::kFloat);
  out.owner = at::tensor(owner, at::kLong);
  out.advantage = at::tensor(advantage, at::kDouble);
  out.valid = at::ones({static_cast<std::int64_t>(members.size())}, at::kBool);
  return out;
}

}  // namespace

std::vector<Pass> make_passes(const std::vector<Response>& responses, const std::vector<std::size_t>& members,
                              std::int64_t pass_tokens, std::int64_t version) {
  std::vector<Pass> out;
  std::vector<std::size_t> open;
  std::int64_t tokens = 0;
  for (const std::size_t i : members) {
    if (!responses[i].valid) continue;
    const std::int64_t length = responses[i].length();
    if (!open.empty() && tokens + length > pass_tokens) {
      out.push_back(pass_of(responses, open, version));
      open.clear();
      tokens = 0;
    }
    open.push_back(i);
    tokens += length;
  }
  if (!open.empty()) out.push_back(pass_of(responses, open, version));
  return out;
}

Pass empty_pass() {
  Pass out;
  out.packed = llm::pack({{0, 0}});
  out.targets = at::full({2}, -1, at::kLong);
  return out;
}

}  // namespace musacoder::train
