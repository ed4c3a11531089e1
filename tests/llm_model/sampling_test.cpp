// Sampling by hand: what each setting keeps, what is reported, and what the random numbers depend on.
#include "llm/generate/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "llm/generate/stop_text.h"

namespace musacoder::llm {
namespace {

const std::vector<TokenId> kNothing;
// Probabilities 0.4, 0.3, 0.15, 0.1, 0.05 in the order of ids 3, 0, 4, 1, 2.
const std::vector<float> kLogits = {std::log(0.3f), std::log(0.1f), std::log(0.05f), std::log(0.4f),
                                    std::log(0.15f)};

std::set<TokenId> drawn(SamplingParams params, int times = 2000) {
  Sampler sampler(kLogits.size());
  std::set<TokenId> out;
  for (int i = 0; i < times; ++i)
    out.insert(
        sampler.pick(kLogits.data(), params, {kNothing, kNothing}, 0, static_cast<std::uint64_t>(i)).token);
  return out;
}

TEST(Sampler, KeepsWhatItShould) {
  EXPECT_EQ(drawn({}), (std::set<TokenId>{0, 1, 2, 3, 4}));
  EXPECT_EQ(drawn({.top_k = 2}), (std::set<TokenId>{0, 3}));
  EXPECT_EQ(drawn({.top_p = 0.69}), (std::set<TokenId>{0, 3}));
  EXPECT_EQ(drawn({.top_p = 0.71}), (std::set<TokenId>{0, 3, 4}));
  EXPECT_EQ(drawn({.top_p = 1e-9}), (std::set<TokenId>{3}));
  EXPECT_EQ(drawn({.min_p = 0.3}), (std::set<TokenId>{0, 3, 4}));                 // 0.3 * 0.4 = 0.12
  EXPECT_EQ(drawn({.top_k = 4, .top_p = 0.9}), (std::set<TokenId>{0, 1, 3, 4}));  // 0.85 of 0.95 is 0.895
  EXPECT_EQ(drawn({.top_k = 4, .top_p = 0.89}), (std::set<TokenId>{0, 3, 4}));
}

TEST(Sampler, LogprobIsOfTheWholeDistributionAtTheTemperature) {
  Sampler sampler(kLogits.size());
  const Sampled greedy = sampler.pick(kLogits.data(), {.temperature = 0}, {kNothing, kNothing}, 0, 0);
  EXPECT_EQ(greedy.token, 3u);
  EXPECT_NEAR(greedy.logprob, std::log(0.4), 1e-6);
  const Sampled warm =
      sampler.pick(kLogits.data(), {.temperature = 2, .top_k = 1}, {kNothing, kNothing}, 0, 0);
  const double sum = std::sqrt(0.4) + std::sqrt(0.3) + std::sqrt(0.15) + std::sqrt(0.1) + std::sqrt(0.05);
  EXPECT_NEAR(warm.logprob, std::log(std::sqrt(0.4) / sum), 1e-6);
}

TEST(Sampler, BiasesMoveTheChoiceButNotTheReport) {
  Sampler sampler(kLogits.size());
  const Sampled one = sampler.pick(kLogits.data(), {.temperature = 0, .logit_bias = {{2, 50.0f}}},
                                   {kNothing, kNothing}, 0, 0);
  EXPECT_EQ(one.token, 2u);
  EXPECT_NEAR(one.logprob, std::log(0.05), 1e-6);
  EXPECT_EQ(drawn({.logit_bias = {{3, -100.0f}, {0, -100.0f}}}), (std::set<TokenId>{1, 2, 4}));
}

TEST(Sampler, LikeliestAreInOrder) {
  Sampler sampler(kLogits.size());
  const auto top = sampler.likeliest(kLogits.data(), {}, 3);
  ASSERT_EQ(top.size(), 3u);
  EXPECT_EQ(top[0].token, 3u);
  EXPECT_EQ(top[1].token, 0u);
  EXPECT_EQ(top[2].token, 4u);
  EXPECT_NEAR(top[2].logprob, std::log(0.15), 1e-6);
}

// Beyond one part of the sums, and where most tokens have no mass at all.
TEST(Sampler, DrawsFromLargeVocabularies) {
  std::vector<float> logits(5000, -200);
  logits[777] = std::log(0.25f);
  logits[4999] = std::log(0.75f);
  Sampler sampler(logits.size());
  int last = 0;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    const Sampled one = sampler.pick(logits.data(), {.seed = 3}, {kNothing, kNothing}, 0, i);
    ASSERT_TRUE(one.token == 777 || one.token == 4999);
    last += one.token == 4999;
  }
  EXPECT_NEAR(last, 3000, 4 * std::sqrt(4000 * 0.25 * 0.75));
  EXPECT_EQ(sampler.pick(logits.data(), {.temperature = 1e-44}, {kNothing, kNothing}, 0, 1).token, 4999u);
}

TEST(Sampler, TiesGoToTheSmallerId) {
  const std::vector<float> flat(100, 1.5f);
  Sampler sampler(flat.size());
  EXPECT_EQ(sampler.pick(flat.data(), {.temperature = 0}, {kNothing, kNothing}, 0, 0).token, 0u);
  for (std::uint64_t i = 0; i < 200; ++i)
    EXPECT_LT(sampler.pick(flat.data(), {.top_k = 7}, {kNothing, kNothing}, 0, i).token, 7u);
}

TEST(Sampler, PenaltiesMoveTheChoiceButNotTheReport) {
  const std::vector<float> logits = {2, 1.5, -1};
  const std::vector<TokenId> prompt = {0}, answer = {0, 0};
  Sampler sampler(3);
  const auto choose = [&](SamplingParams params) {
    params.temperature = 0;
    return sampler.pick(logits.data(), params, {prompt, answer}, 0, 0).token;
  };
  EXPECT_EQ(choose({}), 0u);
  EXPECT_EQ(choose({.repetition_penalty = 1.3}), 0u);  // 2 / 1.3 = 1.54
  EXPECT_EQ(choose({.repetition_penalty = 1.4}), 1u);  // 2 / 1.4 = 1.43
  EXPECT_EQ(choose({.presence_penalty = 0.4}), 0u);
  EXPECT_EQ(choose({.frequency_penalty = 0.3}), 1u);  // twice 0.3
  EXPECT_NEAR(
      sampler.pick(logits.data(), {.temperature = 0, .frequency_penalty = 2}, {prompt, answer}, 0, 0).logprob,
      1.5 - std::log(std::exp(2) + std::exp(1.5) + std::exp(-1)), 1e-6);
}

TEST(Sampler, RandomNumbersAreEvenAndDependOnAllThree) {
  std::set<double> seen;
  double sum = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed)
    for (std::uint64_t sample = 0; sample < 10; ++sample)
      for (std::uint64_t step = 0; step < 100; ++step) {
        const double u = uniform_of(seed, sample, step);
        ASSERT_TRUE(u >= 0 && u < 1);
        seen.insert(u);
        sum += u;
      }
  EXPECT_EQ(seen.size(), 10000u);
  EXPECT_NEAR(sum / 10000, 0.5, 0.012);  // four standard deviations
}

TEST(SamplingParams, WhatIsOutOfRangeIsNamed) {
  for (const SamplingParams& bad :
       {SamplingParams{.max_tokens = 0}, SamplingParams{.temperature = NAN}, SamplingParams{.top_k = -1},
        SamplingParams{.top_p = 1.5}, SamplingParams{.min_p = -0.1}, SamplingParams{.repetition_penalty = 0},
        SamplingParams{.presence_penalty = 3}, SamplingParams{.stop = {""}}})
    EXPECT_FALSE(check_sampling(bad));
  EXPECT_TRUE(check_sampling({}));
}

TEST(StopText, HoldsBackWhatMightBeAStop) {
  StopText text({"\n\n", "END"});
  EXPECT_EQ(text.put("a line\n"), "a line");
  EXPECT_EQ(text.put("more E"), "\nmore ");
  EXPECT_EQ(text.put("NE"), "EN");
  EXPECT_EQ(text.put("ND!"), "");
  EXPECT_TRUE(text.stopped());
  EXPECT_EQ(text.put("later"), "");
  EXPECT_EQ(text.end(), "");
}

TEST(StopText, TheFirstStopCountsAndTheRestComesAtTheEnd) {
  StopText text({"xy", "y"});
  EXPECT_EQ(text.put("ax"), "a");
  EXPECT_EQ(text.put("y"), "");
  EXPECT_TRUE(text.stopped());
  StopText open({"abc"});
  EXPECT_EQ(open.put("zab"), "z");
  EXPECT_EQ(open.end(), "ab");
  EXPECT_FALSE(open.stopped());
}

}  // namespace
}  // namespace musacoder::llm
