#include "llm/generate/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "llm/kernels/cpu_kernels.h"

namespace musacoder::llm {
namespace {

std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

constexpr int kSumPart = 256;

// The likeliest `count` of `order` to its front, of which `sorted` stand there already; how many stand there
// now. Ties go to the smaller id.
std::size_t order_likeliest(const float* logits, std::vector<TokenId>& order, std::size_t sorted,
                            std::size_t count) {
  const auto likelier = [&](TokenId a, TokenId b) {
    const float left = logits[a], right = logits[b];
    return left > right || (left == right && a < b);
  };
  const auto to = order.begin() + static_cast<std::ptrdiff_t>(std::min(count, order.size()));
  std::partial_sort(order.begin() + static_cast<std::ptrdiff_t>(sorted), to, order.end(), likelier);
  return static_cast<std::size_t>(to - order.begin());
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
  for (const auto& [id, bias] : params.logit_bias) logits_[static_cast<std::size_t>(id)] += bias;
  if (params.presence_penalty == 0 && params.frequency_penalty == 0) return;
  std::unordered_map<TokenId, int> counts;
  for (const TokenId id : history.answer) ++counts[id];
  for (const auto& [id, count] : counts)
    logits_[static_cast<std::size_t>(id)] -=
        static_cast<float>(params.presence_penalty + count * params.frequency_penalty);
}

Sampler::Mass Sampler::weigh(const float* logits, double temperature) {
  const auto count = static_cast<std::int64_t>(mass_.size());
  const CpuKernels& run = cpu_kernels();
  const float top = run.maximum(logits, count), scale = static_cast<float>(std::min(1 / temperature, 1e30));
  parts_.assign((mass_.size() + kSumPart - 1) / kSumPart, 0);
  double sum = 0;
  for (std::int64_t from = 0; from < count; from += kSumPart) {
    const std::int64_t size = std::min<std::int64_t>(kSumPart, count - from);
    const double part =
        run.exponentials(logits + from, size, top, scale, &mass_[static_cast<std::size_t>(from)]);
    parts_[static_cast<std::size_t>(from / kSumPart)] = part;
    sum += part;
  }
  return {top, sum};
}

// Candidates are ordered only as far as they are needed: top_p is mostly reached within the first few.
TokenId Sampler::draw(const SamplingParams& params, double whole, double uniform) {
  const std::size_t vocabulary = logits_.size(),
                    most = params.top_k > 0 ? std::min(vocabulary, static_cast<std::size_t>(params.top_k))
                                            : vocabulary;
  if (most == vocabulary && params.top_p == 1 && params.min_p == 0) {
    double left = uniform * whole;
    std::size_t part = 0;
    while (part + 1 < parts_.size() && left >= parts_[part]) left -= parts_[part++];
    TokenId last = 0;  // rounding may leave a rest beyond the last token that can be
    for (std::size_t i = part * kSumPart; i < vocabulary; ++i) {
      if (mass_[i] == 0) continue;
      last = static_cast<TokenId>(i);
      left -= mass_[i];
      if (left < 0) break;
    }
    return last;
  }
  order_.resize(vocabulary);
  std::iota(order_.begin(), order_.end(), 0);
  std::size_t sorted = 0;
  const auto mass = [&](TokenId id) { return static_cast<double>(mass_[static_cast<std::size_t>(id)]); };
  const auto sort_to = [&](std::size_t count) {
    sorted = order_likeliest(logits_.data(), order_, sorted, count);
  };
  if (most < vocabulary) {
    sort_to(most);
    whole = 0;
    for (std::size_t i = 0; i < most; ++i) whole += mass(order_[i]);
  }
  std::size_t kept = 0;
  double kept_mass = 0;
  while (kept < most) {
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
  const bool greedy = params.temperature == 0;
  const double temperature = greedy ? 1 : params.temperature;
  const bool same = params.repetition_penalty == 1 && params.presence_penalty == 0 &&
                    params.frequency_penalty == 0 && params.logit_bias.empty();
  const bool ordered = params.top_k > 0 || params.top_p < 1 || params.min_p > 0;
  Sampled out;
  if (!same || ordered) logits_.assign(logits, logits + logits_.size());
  if (!same) penalise(params, history);
  const float* given = same ? logits : logits_.data();
  if (greedy) {
    out.token = static_cast<TokenId>(std::max_element(given, given + mass_.size()) - given);
  } else if (!same) {
    const Mass mass = weigh(given, temperature);
    out.token = draw(params, mass.sum, uniform_of(params.seed, sample, step));
  }
  const Mass mass = weigh(logits, temperature);
  if (!greedy && same) out.token = draw(params, mass.sum, uniform_of(params.seed, sample, step));
  out.logprob = static_cast<float>((static_cast<double>(logits[out.token]) - mass.top) / temperature -
                                   std::log(mass.sum));
  return out;
}

std::vector<TokenLogprob> Sampler::likeliest(const float* logits, const SamplingParams& params, int count) {
  const double temperature = params.temperature == 0 ? 1 : params.temperature;
  const Mass mass = weigh(logits, temperature);
  order_.resize(mass_.size());
  std::iota(order_.begin(), order_.end(), 0);
  const std::size_t found = order_likeliest(logits, order_, 0, static_cast<std::size_t>(count));
  std::vector<TokenLogprob> out;
  for (std::size_t i = 0; i < found; ++i)
    out.push_back(
        {order_[i], static_cast<float>((static_cast<double>(logits[order_[i]]) - mass.top) / temperature -
                                       std::log(mass.sum))});
  return out;
}

}  // namespace musacoder::llm
