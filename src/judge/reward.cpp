#include "judge/reward.h"

#include <algorithm>
#include <cmath>

namespace musacoder::judge {

double speed_term(std::optional<double> nu, const RewardConfig& config) {
  if (!nu || !std::isfinite(*nu)) return 0;
  return config.lambda * std::min(std::max(*nu - 1, 0.0), config.nu_max);
}

Reward reward_of(const std::string& status, double q, std::optional<double> nu, const RewardConfig& config) {
  if (status == "ok") {
    if (!nu || !std::isfinite(*nu)) return {1.0, "1 + 0: verified; no time was measured, so the speed term is 0"};
    return {1 + speed_term(nu, config),
            fmt::format("1 + {:g} · min(max({:.3g} − 1, 0), {:g}): verified", config.lambda, *nu, config.nu_max)};
  }
  if (!is_candidate_fault(status))
    return {std::nullopt, fmt::format("null: {} is no verdict about the candidate", status_class(status))};
  if (status_class(status) != "correctness_error") return {-1.0, fmt::format("−1: {}", status)};
  q = std::isfinite(q) ? std::clamp(q, 0.0, 1.0) : 0;
  if (q <= 0) return {-1.0, "−1: no trial passed"};
  return {-0.5 + 0.5 * q, fmt::format("−0.5 + 0.5 · {:.3g}: some trials passed", q)};
}

Reward reward_of(const Verdict& verdict, const RewardConfig& config) {
  return reward_of(verdict.status, verdict.q,
                   config.baseline == Baseline::kEager ? verdict.speedup_eager : verdict.speedup_compile, config);
}

}  // namespace musacoder::judge
