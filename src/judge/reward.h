// From verdict to reward: one number for reinforcement learning, or none where the verdict says nothing about the candidate.
//
//   Reward r = reward_of(verdict);                 // λ = 0.5, ν_max = 4, ν against eager
//   if (r.value) train_on(*r.value);               // else: leave the sample out
//
// Formula (MusaCoder paper, Eq. 2), with q the share of trials passed and ν the speed-up over the PyTorch baseline:
//
//   -1                                   extraction, compile or run-time failure, any form of cheating, or q = 0
//   -0.5 + 0.5 q                         a correctness error with 0 < q < 1 (and 0 when every trial passed but a check over
//                                        all of them, such as determinism, did not)
//   1 + λ · min(max(ν − 1, 0), ν_max)    q = 1 and legal
//   null                                 infra, unsupported, inconclusive, invalid_task
//
// The paper gives no values for λ and ν_max; 0.5 and 4 are this project's defaults. Where no time was measured (the
// virtual GPU measures none) ν is unknown, the speed term is 0, and `explanation` says so. Pure functions, thread safe.
#pragma once

#include <optional>
#include <string>

#include "judge/verdict.h"

namespace musacoder::judge {

enum class Baseline { kEager, kCompile };   // which measured speed-up is ν

struct RewardConfig {
  double lambda = 0.5;
  double nu_max = 4;
  Baseline baseline = Baseline::kEager;
};

struct Reward {
  std::optional<double> value;   // null: no verdict about the candidate
  std::string explanation;       // "1 + 0.5 · min(max(1.80 − 1, 0), 4)", one line
};

// λ · min(max(ν − 1, 0), ν_max); 0 for an unknown or non-finite ν.
double speed_term(std::optional<double> nu, const RewardConfig& config = {});

// The formula alone. `status` decides the branch, q is clamped to [0, 1].
Reward reward_of(const std::string& status, double q, std::optional<double> nu, const RewardConfig& config = {});
Reward reward_of(const Verdict& verdict, const RewardConfig& config = {});

}  // namespace musacoder::judge
