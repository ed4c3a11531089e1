// Advantages of responses from their rewards, by group: the responses to one prompt.
//
//   Advantages a = group_advantages(rewards, groups, {.kind = AdvantageKind::kGrpo});
//   // a.values [responses], a.valid [responses]: false where the reward is null
//
// A null reward (NaN: the verifier's own fault, not the candidate's) leaves its group: it takes part in no mean, and its response
// is not trained. Kinds, with r a response's reward and mean, std over its group:
//   kGrpo    (r − mean) / (std + epsilon)      https://arxiv.org/abs/2402.03300; std as `group_std` says
//   kDrGrpo  r − mean                          https://arxiv.org/abs/2503.20783
//   kRloo    r − mean of the others            https://arxiv.org/abs/2402.14740; 0 for a group of one
//   kNone    r                                 REINFORCE without a baseline
#pragma once

#include "llm/torch.h"

namespace musacoder::rl {

enum class AdvantageKind { kGrpo, kDrGrpo, kRloo, kNone };

struct AdvantageConfig {
  AdvantageKind kind = AdvantageKind::kGrpo;
  double epsilon = 1e-6;        // the paper names it and gives no value; 1e-6 is verl's
  bool sample_std = true;       // divide by n − 1, as torch.std and verl do; false: by n
};

struct Advantages {
  at::Tensor values;       // [responses] float64, 0 where not valid
  at::Tensor valid;        // [responses] bool
  at::Tensor informative;  // [responses] bool: valid, and rewards of its group differ
};

// rewards [responses] floating point, NaN for null; groups [responses] int64, equal for responses to one prompt, any numbers.
Advantages group_advantages(const at::Tensor& rewards, const at::Tensor& groups, const AdvantageConfig& config = {});

// DAPO's soft punishment of length (https://arxiv.org/abs/2503.14476, eq. 13): 0 up to longest − cache tokens, then linearly down to
// −1 at `longest`, −1 beyond. lengths [responses] integers; result float64. To be added to the rewards.
at::Tensor overlong_penalty(const at::Tensor& lengths, std::int64_t longest, std::int64_t cache);

}  // namespace musacoder::rl
