#include "llm/generate/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

namespace musacoder::llm {
namespace {

std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

double log_sum(const float* logits, std::size_t count, double temperature) {
  const double top = *std::max_element(logits, logits + count);
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i)
    sum += std::exp(static_cast<float>((logits[i] - top) / temperature));
  return top / temperature + std::log(sum);
}

}  // namespace

double uniform_of(std::uint64_t seed, std::uint64_t sample, std::uint64_t step) {
  return static_cast<double>(mixed(mixed(mixed(seed) ^ sample) ^ step) >> 11) * 0x1p-53;
}

Status check_sampling(const SamplingParams& p) {
  const auto in = [](double value, double low, double high) {
    return value >= low && value <= high;
  };  // false for NaN
  if (p.max_tokens < 1) return fail(Code::kInvalidArgument, "max_tokens is {}; give 1 or more", p.max_tokens);
  if (!in(p.temperature, 0, 100))
    return fail(Code::kInvalidArgument, "temperature is {}; give 0 to 100", p.temperature);
  if (p.top_k < 0) return fail(Code::kInvalidArgument, "top_k is {}; give 0 (all) or more", p.top_k);
  if (!in(p.top_p, 0, 1) || p.top_p == 0)
    return fail(Code::kInvalidArgument, "top_p is {}; give more than 0, at most 1", p.top_p);
  if (!in(p.min_p, 0, 1)) return fail(Code::kInvalidArgument, "min_p is {}; give 0 to 1", p.min_p);
  if (!in(p.repetition_penalty, 1e-3, 1e3))
    return fail(Code::kInvalidArgument, "repetition_penalty is {}; give 0.001 to 1000", p.repetition_penalty);
  for (const double value : {p.presence_penalty, p.frequency_penalty})
    if (!in(value, -2, 2))
      return fail(Code::kInvalidArgument, "a presence or frequency penalty is {}; give -2 to 2", value);
  for (const std::string& text : p.stop)
    if (text.empty()) return fail(Code::kInvalidArgument, "a stop text is empty");
  return ok();
}

void Sampler::penalise(const SamplingParams& params, const History& history) {
  if (params.repetition_penalty != 1) {
    std::unordered_set<TokenId> seen(history.prompt.begin(), history.prompt.end());
    seen.insert(history.answer.begin(), history.answer.end());
    for (const TokenId id : seen) {
      float& logit = logits_[static_cast<std::size_t>(id)];
      logit = static_cast<float>(logit > 0 ? logit / params.repetition_penalty
                                           : logit * params.repetition_penalty);
    }
  }
  if (params.presence_penalty == 0 && params.frequency_penalty == 0) return;
  std::unordered_map<TokenId, int> counts;
  for (const TokenId id : history.answer) ++counts[id];
  for (const auto& [id, count] : counts)
    logits_[static_cast<std::size_t>(id)] -=
        static_cast<float>(params.presence_penalty + count * params.frequency_penalty);
}

// Candidates are ordered only as far as they are needed: top_p is mostly reached within the first few.
TokenId Sampler::draw(const SamplingParams& params, double uniform) {
  const std::size_t vocabulary = logits_.size(),
                    most = params.top_k > 0 ? std::min(vocabulary, static_cast<std::size_t>(params.top_k))
                                            : vocabulary;
  const double top = *std::max_element(logits_.begin(), logits_.end());
  const auto mass = [&](TokenId id) {
    return std::exp((logits_[static_cast<std::size_t>(id)] - top) / params.temperature);
  };
  const bool ordered = most < vocabulary || params.top_p < 1 || params.min_p > 0;
  order_.resize(vocabulary);
  std::iota(order_.begin(), order_.end(), 0);
  double whole = 0;
  std::size_t sorted = 0;
  const auto sort_to = [&](std::size_t count) {
    const auto likelier = [&](TokenId a, TokenId b) {
      const float left = logits_[static_cast<std::size_t>(a)], right = logits_[static_cast<std::size_t>(b)];
      return left > right || (left == right && a < b);
    };
    const auto from = order_.begin() + static_cast<std::ptrdiff_t>(sorted),
               to = order_.begin() + static_cast<std::ptrdiff_t>(std::min(count, vocabulary));
    std::partial_sort(from, to, order_.end(), likelier);
    sorted = static_cast<std::size_t>(to - order_.begin());
  };
  if (most < vocabulary) sort_to(most);
  for (std::size_t i = 0; i < most; ++i) whole += mass(order_[i]);
  std::size_t kept = ordered ? 0 : most;
  double kept_mass = ordered ? 0 : whole;
  while (ordered && kept < most) {
    if (kept == sorted) sort_to(std::max<std::size_t>(64, 4 * sorted));
    const double one = mass(order_[kept]);
    if (kept > 0 && (kept_mass >= params.top_p * whole || one < params.min_p))
      break;  // the likeliest's mass is 1
    kept_mass += one;
    ++kept;
  }
  double left = uniform * kept_mass;
  for (std::size_t i = 0; i < kept; ++i) {
    left -= mass(order_[i]);
    if (left < 0) return order_[i];
  }
  return order_[kept - 1];
}

Sampled Sampler::pick(const float* logits, const SamplingParams& params, const History& history,
                      std::uint64_t sample, std::uint64_t step) {
  logits_.assign(logits, logits + logits_.size());
  penalise(params, history);
  Sampled out;
  const bool greedy = params.temperature == 0;
  out.token = greedy
                  ? static_cast<TokenId>(std::max_element(logits_.begin(), logits_.end()) - logits_.begin())
                  : draw(params, uniform_of(params.seed, sample, step));
  const double temperature = greedy ? 1 : params.temperature;
  out.logprob =
      static_cast<float>(logits[out.token] / temperature - log_sum(logits, logits_.size(), temperature));
  return out;
}

}  // namespace musacoder::llm
