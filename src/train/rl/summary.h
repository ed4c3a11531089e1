// What all processes of a run are told about each other's groups, and the numbers of a step made of it.
//
//   std::vector<Summary> mine = summaries(groups, tasks, config, /*step=*/12);
//   ... exchange(all, device, to_json(mine)) ...
//   add_numbers(numbers, everyones, echo);
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "train/config/rl_config.h"
#include "train/metrics/metrics.h"
#include "train/rl/tasks.h"
#include "train/rl/trajectory.h"

namespace musacoder::train {

// Why a group is not trained.
enum class Fate { kTrained, kStale, kNull, kEqual };

struct Summary {
  std::uint64_t serial = 0;
  std::int64_t first_version = 0;
  bool retry = false;
  std::vector<double> rewards;              // returns; NaN: null
  std::vector<std::vector<double>> scores;  // by trajectory and turn
  std::vector<std::string> statuses;        // of all turns
  std::vector<std::int64_t> lengths;        // of first answers
  std::int64_t clipped = 0, tokens = 0;     // first answers that were cut; tokens of all turns
  std::int64_t control = 0, context = 0;    // trajectories that ended so
  std::int64_t truncated = 0;               // trajectories with a return that train.mask_truncated leaves out
  std::int64_t turn_limit = 1;
  double logprob_sum = 0;  // of all sampled tokens
  double age_sum = 0;      // of all sampled tokens, in steps
  std::int64_t age_max = 0, infra_tries = 0;
  double verify_s = 0, verify_max_s = 0;  // summed; the longest
  std::optional<rl::Retry> failed;        // eq. 13: all answers got -1
  Fate fate = Fate::kTrained;
  bool equal() const;  // fewer than two returns that differ
  bool null() const;   // no return at all
};

std::vector<Summary> summaries(const std::vector<Group>& groups, const std::vector<RlTask>& tasks,
                               const RlConfig& config, std::int64_t step);
std::string to_json(const std::vector<Summary>& all);
Result<std::vector<Summary>> summaries_from_json(const std::string& text);

// reward/*, turns/*, groups/*, rollout/*, staleness/*, status/*, verify/*: of all groups of a step, whatever
// their fate.
void add_numbers(Numbers& numbers, const std::vector<Summary>& all, const RlConfig& config);

}  // namespace musacoder::train
