// PrimeEcho (arXiv 2606.04847, §4.4.3): one return for a trajectory of several turns, whose loss is on the first turn only.
//
//   Echo e = prime_echo({-1.0, 0.5, 1.2}, {});     // scores of the turns
//   e.reward                                       // eq. 9:  α·s_1 + (1−α)·max_k s_k + bonus
//   e.bonus                                        // eq. 10: β1 where turn 1 succeeded, β2 where turn 2 did first, else 0
//
// Later turns are sampled for this return alone: first_turn_mask() leaves them out of the loss (§5.1). A success is a score of at
// least 1 (eq. 22). A turn without a score (NaN: the verifier's own fault) ends what counts of a trajectory; without a first turn's
// score the reward is NaN, and the trajectory leaves its group. α is the paper's; β1 > β2 ≥ 0 are named there without values, 0.2 and
// 0.1 keep the order failed < repaired < right at once (sweep β1 over 0.1 to 0.3).
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "llm/torch.h"

namespace musacoder::rl {

struct EchoConfig {
  double alpha = 0.75;
  double first_bonus = 0.2, second_bonus = 0.1;  // β1, β2
  double success = 1;                            // the score from which on a turn is right
};
// kInvalidArgument: α outside [0, 1], or not β1 > β2 ≥ 0 (both 0 switches the bonus off).
Status check(const EchoConfig& config);

struct Echo {
  double reward = 0, bonus = 0, best = 0;
  int success_turn = 0;  // counted from 1; 0: none
};
Echo prime_echo(const std::vector<double>& scores, const EchoConfig& config);

// turn [tokens] int64: 1, 2, … for tokens that a turn sampled, 0 for all others. [tokens] float: 1 for turn 1.
at::Tensor first_turn_mask(const at::Tensor& turn);

// What is logged of a batch of trajectories (eq. 22-25). Trajectories without a first score are left out of all.
struct TurnMetrics {
  std::int64_t trajectories = 0;
  double first_accuracy = 0, best_accuracy = 0;  // eq. 22, 23: share that succeeded at turn 1; at any turn
  double first_score = 0, best_score = 0;        // eq. 24: means of s_1 and of max_k s_k
  double turn_to_success = 0;                    // eq. 25: mean turn of the first success, over those that have one
  double turns = 0;                              // mean number of turns
};
TurnMetrics turn_metrics(const std::vector<std::vector<double>>& trajectories, const EchoConfig& config);

}  // namespace musacoder::rl
