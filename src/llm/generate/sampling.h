// One token from a row of logits: penalties, temperature, top-k, top-p, min-p, and a random number that
// depends on nothing but the seed, the sample and the step.
//
//   Sampler sampler(vocabulary);
//   Sampled next = sampler.pick(logits, {.temperature = 0.8, .top_p = 0.95, .seed = 7}, history,
//   /*sample=*/0, /*step=*/3); next.logprob;       // under the model at this temperature, before penalties
//   and truncation
//
// Order and meaning are those of `transformers` (generation/logits_process.py): repetition penalty
// (https://arxiv.org/abs/1909.05858), biases, then presence and frequency penalties as in OpenAI's API over
// generated tokens, temperature, the top_k likeliest, the smallest set of likeliest that reaches top_p, those
// of at least min_p times the likeliest's probability. Ties go to the smaller id. Thread safety: one Sampler
// per thread (it holds scratch).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "llm/tokenizer/spec.h"

namespace musacoder::llm {

struct SamplingParams {
  int max_tokens = 256;
  double temperature = 1;  // 0: the likeliest token
  int top_k = 0;           // 0: all
  double top_p = 1, min_p = 0;
  double repetition_penalty = 1;                       // over prompt and answer
  double presence_penalty = 0, frequency_penalty = 0;  // over the answer
  std::uint64_t seed = 0;
  std::vector<std::pair<TokenId, float>> logit_bias;  // added to these tokens' logits
  std::vector<TokenId> stop_ids;                      // beside the model's own ends
  std::vector<std::string> stop;                      // texts that end the answer; not part of it
  bool ignore_eos = false;
};

// kInvalidArgument with the name of a value that is out of range.
Status check_sampling(const SamplingParams& params);

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0;
};
using Sampled = TokenLogprob;
inline constexpr int kMostTopLogprobs = 1000;

struct History {
  const std::vector<TokenId>& prompt;
  const std::vector<TokenId>& answer;
};

class Sampler {
 public:
  explicit Sampler(std::size_t vocabulary) : logits_(vocabulary), mass_(vocabulary) {}
  Sampled pick(const float* logits, const SamplingParams& params, const History& history,
               std::uint64_t sample, std::uint64_t step);
  // The `count` likeliest of the distribution that `logprob` is of, in order.
  std::vector<TokenLogprob> likeliest(const float* logits, const SamplingParams& params, int count);

 private:
  // exp((logits - top) / temperature) into mass_, their sums into parts_.
  struct Mass {
    float top;
    double sum;
  };
  Mass weigh(const float* logits, double temperature);
  void penalise(const SamplingParams& params, const History& history);
  TokenId draw(const SamplingParams& params, double whole, double uniform);
  std::vector<float> logits_, mass_;
  std::vector<double> parts_;  // of each kSumPart entries of mass_
  std::vector<TokenId> order_;
};

// In [0, 1), by SplitMix64 (https://prng.di.unimi.it/splitmix64.c) over the three numbers.
double uniform_of(std::uint64_t seed, std::uint64_t sample, std::uint64_t step);

}  // namespace musacoder::llm
