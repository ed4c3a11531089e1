#include "train/rl/planner.h"

#include <nlohmann/json.hpp>

#include "train/config/rl_objective.h"
#include "train/data/random.h"

namespace musacoder::train {
namespace {

constexpr std::uint64_t kOrder = 0x6f72646572, kRetry = 0x7265747279;  // what a random number is for

}  // namespace

Planner::Planner(const RlConfig& config, const std::vector<RlTask>& tasks, std::vector<std::size_t> usable)
    : config_(config), tasks_(tasks), usable_(std::move(usable)), buffer_(retry_of(config)) {
  for (const std::size_t i : usable_) by_id_[tasks_[i].id] = i;
}

double Planner::epoch() const { return static_cast<double>(cursor_) / static_cast<double>(usable_.size()); }

std::size_t Planner::next_task() {
  const auto epoch = static_cast<std::int64_t>(cursor_ / usable_.size());
  if (epoch != ordered_epoch_) {
    order_ = usable_;
    Random({static_cast<std::uint64_t>(config_.seed), kOrder, static_cast<std::uint64_t>(epoch)})
        .shuffle(order_);
    ordered_epoch_ = epoch;
  }
  return order_[cursor_++ % usable_.size()];
}

std::vector<GroupStart> Planner::plan(std::size_t count, std::int64_t step) {
  std::vector<GroupStart> out;
  while (out.size() < count) {
    GroupStart one{.serial = serial_++, .turns = turns_at(config_, step)};
    const double uniform =
        static_cast<double>(Random({static_cast<std::uint64_t>(config_.seed), kRetry, one.serial}).next() >>
                            11) *
        0x1p-53;
    if (buffer_.wants_retry(step, uniform)) {
      one.retry = buffer_.draw();
      one.task = by_id_.at(one.retry->prompt_id);
      one.turns = 1;  // all tokens of a retry are trained: it is one answer
    } else {
      one.task = next_task();
    }
    out.push_back(std::move(one));
  }
  return out;
}

bool Planner::retry_later(rl::Retry retry) {
  return config_.retry_probability > 0 && by_id_.count(retry.prompt_id) > 0 && buffer_.push(std::move(retry));
}

nlohmann::json Planner::to_json() const {
  return {{"serial", serial_}, {"cursor", cursor_}, {"buffer", nlohmann::json::parse(buffer_.to_json())}};
}

Status Planner::restore(const nlohmann::json& json) try {
  serial_ = json.at("serial").get<std::uint64_t>();
  cursor_ = json.at("cursor").get<std::uint64_t>();
  return buffer_.restore(json.at("buffer").dump());
} catch (const nlohmann::json::exception& error) {
  return fail(Code::kInvalidArgument, "not a planner's state: {}", error.what());
}

}  // namespace musacoder::train
