// From groups of answers to what a training pass reads: returns, advantages, packed tokens.
//
//   std::vector<Response> responses = score(groups, config);
//   for (Pass& pass : make_passes(responses, members, 8192)) { ... model.logprobs(pass.packed, pass.targets)
//   ... }
//
// A response is a trajectory: one return, one advantage, and of its turns those that are trained; with
// train.turns = "first" only the first (PrimeEcho, MusaCoder paper §5.1). A retry is a single turn, so all of
// its tokens are trained (§4.5.1). Each trained turn is a sequence of its own, its prompt in front.
#pragma once

#include <cstdint>
#include <vector>

#include "llm/model/packed.h"
#include "llm/torch.h"
#include "train/config/rl_config.h"
#include "train/rl/trajectory.h"

namespace musacoder::train {

struct Response {
  const Group* group = nullptr;
  const Trajectory* trajectory = nullptr;
  double reward = 0;  // the return; NaN: null
  double advantage = 0;
  bool valid = false;        // it has a return, and is to be trained
  bool informative = false;  // and the returns of its group differ
  std::vector<const Turn*> trained;
  std::int64_t tokens() const;  // trained ones
  std::int64_t length() const;  // with their prompts
};

// A trajectory's return; NaN where its first turn has no score. The soft punishment of length is of the first
// turn's.
double trajectory_return(const Trajectory& trajectory, const RlConfig& config);

// Of all trajectories, in order; `groups` must outlive the result.
std::vector<Response> score(const std::vector<Group>& groups, const RlConfig& config);

// Responses of one forward and backward pass.
struct Pass {
  llm::Packed packed;
  at::Tensor targets;                  // [tokens] int64, -1 where nothing is predicted
  at::Tensor rollout;                  // [trained] float: log-probabilities of the sampler
  at::Tensor owner;                    // [trained] int64: index in `responses`
  std::vector<std::int64_t> ages;      // [trained]: versions between the weights that sampled and `version`
  std::vector<std::size_t> responses;  // numbers in what make_passes() was given
  at::Tensor advantage, valid;         // [responses]
  at::Tensor old, reference;           // [trained], where they are computed
  bool empty() const { return responses.empty(); }
};

// Those of `members` that are valid and have tokens, in order, as many a pass as `pass_tokens` allow (one at
// least). `version`: of the weights that are trained.
std::vector<Pass> make_passes(const std::vector<Response>& responses, const std::vector<std::size_t>& members,
                              std::int64_t pass_tokens, std::int64_t version);
// For a process that keeps others company.
Pass empty_pass();

}  // namespace musacoder::train
