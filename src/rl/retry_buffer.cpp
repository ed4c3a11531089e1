#include "rl/retry_buffer.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace musacoder::rl {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Retry, prompt_id, candidate, feedback, status, retries, step)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RetryBuffer::Counts, pushed, evicted, replaced, refused, drawn)

int progress(const std::string& status) {
  const std::string kind = status.substr(0, status.find(':'));
  if (kind == "correctness_error" || status == "cheating:disallowed_aten") return 3;
  if (kind == "runtime_error") return 2;
  return status == "compile_error:extract" ? 0 : 1;
}

std::optional<Retry> retry_of(const std::string& prompt_id, const std::vector<Attempt>& group) {
  const Attempt* best = nullptr;
  for (const Attempt& one : group) {
    if (std::isnan(one.reward)) continue;
    if (one.reward != -1) return std::nullopt;
    if (!best || progress(one.status) > progress(best->status)) best = &one;
  }
  if (!best) return std::nullopt;
  return Retry{prompt_id, best->candidate, best->feedback, best->status};
}

bool RetryBuffer::push(Retry retry) {
  if (retry.retries >= config_.most_retries || config_.capacity == 0) {
    ++counts_.refused;
    return false;
  }
  const auto same = std::find_if(entries_.begin(), entries_.end(), [&](const Retry& one) { return one.prompt_id == retry.prompt_id; });
  if (same != entries_.end()) {
    *same = std::move(retry);
    ++counts_.replaced;
    return true;
  }
  if (entries_.size() >= config_.capacity) {
    entries_.pop_front();
    ++counts_.evicted;
  }
  entries_.push_back(std::move(retry));
  ++counts_.pushed;
  return true;
}

bool RetryBuffer::wants_retry(std::int64_t step, double uniform) const {
  return step >= config_.start_step && !entries_.empty() && uniform < config_.probability;
}

std::optional<Retry> RetryBuffer::draw() {
  if (entries_.empty()) return std::nullopt;
  Retry out = std::move(entries_.front());
  entries_.pop_front();
  ++out.retries;
  ++counts_.drawn;
  return out;
}

std::string RetryBuffer::to_json() const {
  return nlohmann::json{{"version", 1}, {"entries", entries_}, {"counts", counts_}}.dump();
}

Status RetryBuffer::restore(const std::string& text) {
  try {
    const auto value = nlohmann::json::parse(text);
    if (value.at("version") != 1) return fail(Code::kInvalidArgument, "retry buffer of version {}", value.at("version").dump());
    auto entries = value.at("entries").get<std::deque<Retry>>();
    counts_ = value.at("counts").get<Counts>();
    entries_ = std::move(entries);
  } catch (const nlohmann::json::exception& error) {
    return fail(Code::kInvalidArgument, "not a retry buffer: {}", error.what());
  }
  return ok();
}

}  // namespace musacoder::rl
