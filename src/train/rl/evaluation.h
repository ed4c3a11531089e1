// What held-out tasks say of a policy.
//
//   evaluation_numbers({{"level1/19", "activation", 8, 3, 2, 0, 1, 4}, ...}, /*samples=*/8);
//
// pass@k is unbiased, 1 - C(n-c, k) / C(n, k) of the n decided and c verified samples of a task
// (https://arxiv.org/abs/2107.03374, eq. 1), averaged over tasks with at least k decided ones; avg@n the mean
// of c / n. Samples without a verdict about them leave the denominator and are counted. faster: the share of
// decided samples that are verified and measured above 1.1 times eager; absent where nothing was measured.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "train/metrics/metrics.h"
#include "train/rl/tasks.h"
#include "train/rl/trajectory.h"

namespace musacoder::train {

struct EvaluatedTask {
  std::string id, family;
  std::int64_t decided = 0, verified = 0;  // samples: with a verdict; verified at any of their turns
  std::int64_t first = 0;                  // verified at the first turn
  std::int64_t null = 0;
  std::int64_t faster = 0, measured = 0;  // of the verified ones
};

EvaluatedTask evaluated(const Group& group, const std::vector<RlTask>& tasks);
nlohmann::json to_json(const EvaluatedTask& task);
EvaluatedTask evaluated_from_json(const nlohmann::json& json);

double pass_at(std::int64_t decided, std::int64_t verified, std::int64_t k);

// eval/pass@1, eval/pass@n, eval/avg@n, eval/first, eval/faster, eval/tasks, eval/null; and eval/family/NAME
// of each family where there are several: its avg@n.
Numbers evaluation_numbers(const std::vector<EvaluatedTask>& tasks, std::int64_t samples);

}  // namespace musacoder::train
