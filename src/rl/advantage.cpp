#include "rl/advantage.h"

#include <cmath>
#include <map>
#include <vector>

namespace musacoder::rl {

Advantages group_advantages(const at::Tensor& rewards, const at::Tensor& groups, const AdvantageConfig& config) {
  TORCH_CHECK(rewards.dim() == 1 && groups.sizes() == rewards.sizes(), "rewards and groups must be of one length");
  const at::Tensor r = rewards.detach().to(at::kCPU, at::kDouble).contiguous(), g = groups.to(at::kCPU, at::kLong).contiguous();
  const auto count = static_cast<std::size_t>(r.numel());
  const double* reward = r.data_ptr<double>();
  const std::int64_t* group = g.data_ptr<std::int64_t>();
  std::map<std::int64_t, std::vector<std::size_t>> members;
  for (std::size_t i = 0; i < count; ++i)
    if (!std::isnan(reward[i])) members[group[i]].push_back(i);

  Advantages out{at::zeros(r.sizes(), at::kDouble), at::zeros(r.sizes(), at::kBool), at::zeros(r.sizes(), at::kBool)};
  double* value = out.values.data_ptr<double>();
  bool *valid = out.valid.data_ptr<bool>(), *informative = out.informative.data_ptr<bool>();
  for (const auto& [_, who] : members) {
    const auto n = static_cast<double>(who.size());
    double mean = 0, squares = 0;
    bool differ = false;
    for (const std::size_t i : who) {
      mean += reward[i] / n;
      differ = differ || reward[i] != reward[who[0]];
    }
    if (!differ) mean = reward[who[0]];  // exactly, so that equal rewards give exactly nothing
    for (const std::size_t i : who) squares += (reward[i] - mean) * (reward[i] - mean);
    const double divisor = config.sample_std ? n - 1 : n;
    const double deviation = divisor > 0 ? std::sqrt(squares / divisor) : 0;
    for (const std::size_t i : who) {
      valid[i] = true;
      informative[i] = differ;
      const double above = reward[i] - mean;
      switch (config.kind) {
        case AdvantageKind::kGrpo: value[i] = above / (deviation + config.epsilon); break;
        case AdvantageKind::kDrGrpo: value[i] = above; break;
        case AdvantageKind::kRloo: value[i] = n > 1 ? above * n / (n - 1) : 0; break;
        case AdvantageKind::kNone: value[i] = reward[i]; break;
      }
    }
  }
  return out;
}

at::Tensor overlong_penalty(const at::Tensor& lengths, std::int64_t longest, std::int64_t cache) {
  TORCH_CHECK(cache > 0 && cache <= longest, "the soft part must be within the longest response");
  const at::Tensor free = static_cast<double>(longest - cache) - lengths.to(at::kDouble);
  return (free / static_cast<double>(cache)).clamp(-1, 0);
}

}  // namespace musacoder::rl
