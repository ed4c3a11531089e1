// Which prompts come next: tasks in an order of each epoch's own, and failed ones again (MusaCoder paper, eq.
// 16).
//
//   Planner planner(config, tasks);
//   std::vector<GroupStart> starts = planner.plan(64, /*step=*/12);
//   planner.retry_later(std::move(failed));           // what rl::retry_of() made of a group, eq. 13-15
//
// The same state gives the same prompts, so processes that are told the same things plan the same. Random
// numbers are functions of the seed and the serial: there is no generator to save.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "rl/retry_buffer.h"
#include "train/config/rl_config.h"
#include "train/rl/tasks.h"
#include "train/rl/trajectory.h"

namespace musacoder::train {

class Planner {
 public:
  // `usable`: numbers of the tasks that prompts may be of.
  Planner(const RlConfig& config, const std::vector<RlTask>& tasks, std::vector<std::size_t> usable);
  std::vector<GroupStart> plan(std::size_t count, std::int64_t step);
  // False: it was not taken (its retries are used up).
  bool retry_later(rl::Retry retry);
  const rl::RetryBuffer& buffer() const { return buffer_; }
  double epoch() const;  // 1.5: half through the tasks for the second time

  nlohmann::json to_json() const;
  Status restore(const nlohmann::json& json);

 private:
  std::size_t next_task();

  const RlConfig& config_;
  const std::vector<RlTask>& tasks_;
  std::vector<std::size_t> usable_, order_;
  std::int64_t ordered_epoch_ = -1;
  std::map<std::string, std::size_t> by_id_;
  rl::RetryBuffer buffer_;
  std::uint64_t serial_ = 0, cursor_ = 0;
};

}  // namespace musacoder::train
