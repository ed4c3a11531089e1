#include "judge/reward.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

namespace musacoder::judge {
namespace {

TEST(Reward, CalculatedByHand) {
  EXPECT_DOUBLE_EQ(*reward_of("compile_error:nvcc", 0, {}).value, -1);
  EXPECT_DOUBLE_EQ(*reward_of("runtime_error:timeout", 0.8, {}).value, -1);
  EXPECT_DOUBLE_EQ(*reward_of("cheating:disallowed_aten", 1, 9.0).value, -1);
  EXPECT_DOUBLE_EQ(*reward_of("correctness_error:values", 0, {}).value, -1);
  EXPECT_DOUBLE_EQ(*reward_of("correctness_error:values", 0.5, {}).value, -0.25);    // −0.5 + 0.25
  EXPECT_DOUBLE_EQ(*reward_of("correctness_error:values", 0.8, {}).value, -0.1);     // −0.5 + 0.4
  EXPECT_DOUBLE_EQ(*reward_of("ok", 1, 0.7).value, 1);                               // slower: no bonus, no penalty
  EXPECT_DOUBLE_EQ(*reward_of("ok", 1, 1.0).value, 1);
  EXPECT_DOUBLE_EQ(*reward_of("ok", 1, 2.0).value, 1.5);                             // 1 + 0.5 · 1
  EXPECT_DOUBLE_EQ(*reward_of("ok", 1, 5.0).value, 3);                               // 1 + 0.5 · 4
  EXPECT_DOUBLE_EQ(*reward_of("ok", 1, 100.0).value, 3);                             // capped
  EXPECT_DOUBLE_EQ(*reward_of("ok", 1, 3.0, {.lambda = 0.25, .nu_max = 1}).value, 1.25);
}

TEST(Reward, NoVerdictAboutTheCandidateNoReward) {
  for (const char* status : {"infra:disk", "unsupported:ptx:wgmma", "inconclusive:budget", "invalid_task:trivial", "invalid_row"})
    EXPECT_FALSE(reward_of(status, 1, 2.0).value.has_value()) << status;
}

TEST(Reward, UnknownTimeGivesNoSpeedTermAndSaysSo) {
  const Reward reward = reward_of("ok", 1, std::nullopt);
  EXPECT_DOUBLE_EQ(*reward.value, 1);
  EXPECT_NE(reward.explanation.find("no time was measured"), std::string::npos);
  EXPECT_DOUBLE_EQ(*reward_of("ok", 1, std::nan("")).value, 1);
  EXPECT_DOUBLE_EQ(*reward_of("ok", 1, HUGE_VAL).value, 1);
}

TEST(Reward, TakesTheChosenBaseline) {
  Verdict v;
  v.status = "ok";
  v.q = 1;
  v.speedup_eager = 3.0;
  v.speedup_compile = 2.0;
  EXPECT_DOUBLE_EQ(*reward_of(v).value, 2);
  EXPECT_DOUBLE_EQ(*reward_of(v, {.baseline = Baseline::kCompile}).value, 1.5);
}

RC_GTEST_PROP(Reward, IsOrderedByHowFarACandidateCame, (double q, double nu)) {
  const double wrong = *reward_of("correctness_error:values", q, {}).value;
  const double right = *reward_of("ok", 1, nu).value;
  RC_ASSERT(wrong >= -1 && wrong <= 0);
  RC_ASSERT(right >= 1 && right <= 3);
}

}  // namespace
}  // namespace musacoder::judge
