// Parts of the objective against numbers worked out by hand, and gradients against finite differences.
#include "rl/objective.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "rl/advantage.h"

namespace musacoder::rl {
namespace {

at::Tensor doubles(std::initializer_list<double> values) { return at::tensor(std::vector<double>(values), at::kDouble); }
at::Tensor integers(std::initializer_list<std::int64_t> values) { return at::tensor(std::vector<std::int64_t>(values), at::kLong); }
double at_(const at::Tensor& x, std::int64_t i) { return x[i].item<double>(); }

// Two responses: two tokens with ratios 2 and 1/2 (the signed mean of their logs is 0), three with 1.1, 1, 1.
Tokens two() {
  const double l2 = std::log(2.0), l11 = std::log(1.1);
  Tokens t;
  t.old = doubles({-1, -2, -1, -1, -3});
  t.current = (t.old + doubles({l2, -l2, l11, 0, 0})).requires_grad_();
  t.mask = doubles({1, 1, 1, 1, 1});
  t.response = integers({0, 0, 1, 1, 1});
  t.responses = 2;
  return t;
}

TEST(Ratio, TokenAndSequence) {
  const Tokens t = two();
  const at::Tensor token = ratio(t, Pair::kCurrentOld, RatioLevel::kToken);
  EXPECT_NEAR(at_(token, 0), 2, 1e-12);
  EXPECT_NEAR(at_(token, 1), 0.5, 1e-12);
  const at::Tensor sequence = ratio(t, Pair::kCurrentOld, RatioLevel::kSequence);
  EXPECT_NEAR(at_(sequence, 0), 1, 1e-12);
  EXPECT_NEAR(at_(sequence, 3), std::cbrt(1.1), 1e-12);
  const at::Tensor both = ratio(t, Pair::kCurrentOld, RatioLevel::kSequenceToken);
  EXPECT_TRUE(at::allclose(both, sequence, 1e-12, 1e-12));
  // GSPO-token gives each token its own gradient, GSPO a share of the sequence's.
  both[2].backward();
  EXPECT_NEAR(at_(t.current.grad(), 2), std::cbrt(1.1), 1e-12);
  EXPECT_EQ(at_(t.current.grad(), 3), 0);
}

TEST(Ratio, TokensThatAreNotTrainedAreInNoMean) {
  Tokens t = two();
  t.mask = doubles({1, 0, 1, 1, 1});
  EXPECT_NEAR(at_(ratio(t, Pair::kCurrentOld, RatioLevel::kSequence), 1), 2, 1e-12);
}

TEST(ClipTest, PpoByHand) {
  const at::Tensor rho = doubles({2, 2, 0.5, 0.5, 1.1}), lp = doubles({-1, -1, -1, -1, -1});
  // min(ρA, clip(ρ, 0.8, 1.28)A)
  const at::Tensor out = clipped(rho, doubles({1, -1, 1, -1, 3}), lp, {.low = 0.2, .high = 0.28});
  EXPECT_TRUE(at::allclose(out, doubles({1.28, -2, 0.5, -0.8, 3.3}), 1e-12));
  // dual: not below 1.5·A for A < 0
  const at::Tensor dual = clipped(rho, doubles({1, -1, 1, -1, 3}), lp, {.low = 0.2, .high = 0.28, .dual = 1.5});
  EXPECT_TRUE(at::allclose(dual, doubles({1.28, -1.5, 0.5, -0.8, 3.3}), 1e-12));
}

TEST(ClipTest, CispoKeepsEveryGradient) {
  const at::Tensor lp = doubles({-1, -2}).requires_grad_();
  const at::Tensor out = clipped(doubles({7, 0.01}), doubles({2, -1}), lp, {.kind = Clip::kCispo, .low = 1, .high = 4});
  out.sum().backward();
  EXPECT_TRUE(at::allclose(out, doubles({5 * 2 * -1, 0.01 * -1 * -2}), 1e-12));
  EXPECT_TRUE(at::allclose(lp.grad(), doubles({10, -0.01}), 1e-12));
}

TEST(Corrections, ByHand) {
  Tokens t = two();
  t.rollout = t.old - doubles({std::log(3.0), std::log(0.25), 0, std::log(1.5), std::log(4.0)});  // w = 3, 1/4, 1, 1.5, 4
  const auto weights = [&](Correction kind, double low, double high) { return correction_weights(t, {.kind = kind, .low = low, .high = high}); };
  EXPECT_TRUE(at::allclose(weights(Correction::kNone, 0, 2), doubles({1, 1, 1, 1, 1})));
  EXPECT_TRUE(at::allclose(weights(Correction::kTokenTruncated, 0, 2), doubles({2, 0.25, 1, 1.5, 2}), 1e-12));
  EXPECT_TRUE(at::allclose(weights(Correction::kTokenMasked, 0.5, 3.5), doubles({3, 0, 1, 1.5, 0}), 1e-12));
  // products: 0.75 and 6
  EXPECT_TRUE(at::allclose(weights(Correction::kSequenceTruncated, 0, 2), doubles({0.75, 0.75, 2, 2, 2}), 1e-12));
  EXPECT_TRUE(at::allclose(weights(Correction::kSequenceMasked, 0, 2), doubles({0.75, 0.75, 0, 0, 0}), 1e-12));
}

TEST(Masks, MirrorPopSeesWhatTheSignedMeanCancels) {
  const Tokens t = two();  // rollout is old here
  const at::Tensor a = doubles({1, -1});
  const auto kept = [&](SequenceMaskConfig c) { return kept_responses(t, a, c); };
  // eq. 18: exp(0) = 1 is inside any interval; eq. 20-21: mean |log ρ| is log 2 = 0.693
  EXPECT_TRUE(at::equal(kept({.kind = SequenceMask::kGeometric, .low = 0.999, .high = 1.05}), at::tensor(std::vector<std::int64_t>{1, 1}).to(at::kBool)));
  EXPECT_TRUE(at::equal(kept({.kind = SequenceMask::kMirrorPop, .delta = 0.05}), at::tensor(std::vector<std::int64_t>{0, 1}).to(at::kBool)));
  EXPECT_TRUE(at::equal(kept({.kind = SequenceMask::kMirrorPop, .delta = 0.694}), at::tensor(std::vector<std::int64_t>{1, 1}).to(at::kBool)));
  EXPECT_TRUE(at::equal(kept({.kind = SequenceMask::kK2, .delta = 0.24}), at::tensor(std::vector<std::int64_t>{0, 1}).to(at::kBool)));  // log²2 / 2 = 0.2402
  EXPECT_TRUE(at::equal(kept({.kind = SequenceMask::kK2, .delta = 0.241}), at::tensor(std::vector<std::int64_t>{1, 1}).to(at::kBool)));
}

TEST(Masks, MirrorPopIsSymmetricAndBoundsTheOthers) {
  at::manual_seed(1);
  for (int round = 0; round < 50; ++round) {
    Tokens t;
    t.old = -at::rand({40}, at::kDouble);
    t.current = t.old + 0.3 * at::randn({40}, at::kDouble);
    t.mask = at::ones({40}, at::kDouble);
    t.response = at::zeros({40}, at::kLong);
    t.responses = 1;
    Tokens swapped = t;
    std::swap(swapped.old, swapped.current);
    const at::Tensor lr = t.current - t.old;
    const double mirror = lr.abs().mean().item<double>();
    const auto keeps = [](const Tokens& of, SequenceMaskConfig c) { return kept_responses(of, doubles({1}), c).item<bool>(); };
    for (const double delta : {mirror * 0.999, mirror * 1.001}) {
      const SequenceMaskConfig c{.kind = SequenceMask::kMirrorPop, .delta = delta};
      EXPECT_EQ(keeps(t, c), delta > mirror);
      EXPECT_EQ(keeps(swapped, c), delta > mirror);
    }
    EXPECT_GE(mirror, std::abs(lr.mean().item<double>()));
    EXPECT_LE(mirror, std::sqrt(2 * (lr.square() / 2).mean().item<double>()));
  }
}

TEST(Masks, OpsmDropsOnlyNegativeAdvantages) {
  Tokens t = two();
  t.rollout = t.current.detach() + doubles({0.6, 0.6, 0.6, 0.6, 0.6});  // both moved by 0.6 away from the rollout
  const SequenceMaskConfig c{.kind = SequenceMask::kOpsm, .delta = 0.5};
  EXPECT_TRUE(at::equal(kept_responses(t, doubles({1, -1}), c), at::tensor(std::vector<std::int64_t>{1, 0}).to(at::kBool)));
}

TEST(Masks, WhatIsNotFiniteOrEmptyIsNotKept) {
  Tokens t = two();
  t.rollout = doubles({-1, -INFINITY, -1, -1, -3});
  EXPECT_TRUE(at::equal(kept_responses(t, doubles({1, 1}), {}), at::tensor(std::vector<std::int64_t>{0, 1}).to(at::kBool)));
  t.mask = doubles({1, 0, 0, 0, 0});  // the infinite one is not trained, the second response has no token
  EXPECT_TRUE(at::equal(kept_responses(t, doubles({1, 1}), {}), at::tensor(std::vector<std::int64_t>{1, 0}).to(at::kBool)));
}

TEST(KlTest, ByHand) {
  Tokens t = two();
  t.reference = t.current.detach() + doubles({std::log(2.0), 0, -std::log(2.0), 0, 0});
  EXPECT_NEAR(at_(kl_estimate(t, Kl::kK1), 0), -std::log(2.0), 1e-12);
  EXPECT_NEAR(at_(kl_estimate(t, Kl::kK2), 2), std::log(2.0) * std::log(2.0) / 2, 1e-12);
  EXPECT_NEAR(at_(kl_estimate(t, Kl::kK3), 0), 2 - std::log(2.0) - 1, 1e-12);
  EXPECT_NEAR(at_(kl_estimate(t, Kl::kK3), 2), 0.5 + std::log(2.0) - 1, 1e-12);
}

TEST(NormalisationTest, ByHand) {
  const Tokens t = two();
  const at::Tensor values = doubles({1, 3, 6, 0, 0}), all = doubles({1, 1, 1, 1, 1});
  const auto value = [&](Normalisation kind, const at::Tensor& w, double constant = 1) { return normalised(values, w, t, kind, constant).item<double>(); };
  EXPECT_NEAR(value(Normalisation::kTokenMean, all), 2, 1e-12);            // 10 / 5
  EXPECT_NEAR(value(Normalisation::kSeqMeanTokenMean, all), 2, 1e-12);     // (2 + 2) / 2
  EXPECT_NEAR(value(Normalisation::kSeqMeanTokenSum, all), 5, 1e-12);      // (4 + 6) / 2
  EXPECT_NEAR(value(Normalisation::kSeqSumTokenNorm, all, 8), 0.625, 1e-12);
  const at::Tensor first = doubles({1, 1, 0, 0, 0});  // a response that does not count is in no denominator
  EXPECT_NEAR(value(Normalisation::kTokenMean, first), 2, 1e-12);
  EXPECT_NEAR(value(Normalisation::kSeqMeanTokenMean, first), 2, 1e-12);
  EXPECT_NEAR(value(Normalisation::kSeqMeanTokenSum, first), 4, 1e-12);
  EXPECT_EQ(value(Normalisation::kTokenMean, at::zeros_like(all)), 0);
}

TEST(ObjectiveTest, MirrorPopOfThePaperByHand) {
  // Eq. 17 with three responses of one, two, one tokens; the second moved by log 2 in both directions and leaves.
  Tokens t;
  t.rollout = doubles({-1, -1, -1, -2});
  t.current = (t.rollout + doubles({0.02, std::log(2.0), -std::log(2.0), -0.03})).requires_grad_();
  t.mask = doubles({1, 1, 1, 1});
  t.response = integers({0, 1, 1, 2});
  t.responses = 3;
  const auto config = preset("mirrorpop");
  ASSERT_TRUE(config);
  const Objective o = objective(t, doubles({1, 1, -2}), {}, *config);
  // −(1·e^0.02 − 2·e^−0.03) / 2: neither is clipped
  EXPECT_NEAR(o.loss.item<double>(), -(std::exp(0.02) - 2 * std::exp(-0.03)) / 2, 1e-12);
  EXPECT_NEAR(o.metrics.at("masked_share"), 1.0 / 3, 1e-12);
  EXPECT_EQ(o.metrics.at("tokens"), 2);
  o.loss.backward();
  EXPECT_NEAR(at_(t.current.grad(), 0), -std::exp(0.02) / 2, 1e-12);
  EXPECT_EQ(at_(t.current.grad(), 1), 0);
  EXPECT_NEAR(at_(t.current.grad(), 3), std::exp(-0.03), 1e-12);
}

TEST(ObjectiveTest, NullRewardsLeaveNumeratorAndDenominator) {
  const Tokens t = two();
  ObjectiveConfig c;
  c.normalisation = Normalisation::kTokenMean;
  const Objective o = objective(t, doubles({1, 1}), at::tensor(std::vector<std::int64_t>{0, 1}).to(at::kBool), c);
  EXPECT_NEAR(o.loss.item<double>(), -(1.1 + 1 + 1) / 3, 1e-12);
  const Objective none = objective(t, doubles({1, 1}), at::zeros({2}, at::kBool), c);
  EXPECT_EQ(none.loss.item<double>(), 0);
  none.loss.backward();
  EXPECT_TRUE(at::equal(t.current.grad(), at::zeros({5}, at::kDouble)));
}

TEST(ObjectiveTest, InfinitiesOfUntrainedTokensDoNotReachTheGradient) {
  Tokens t = two();
  t.rollout = doubles({-INFINITY, -2, -1, -1, -3});
  t.mask = doubles({0, 1, 1, 1, 1});
  for (const std::string& name : preset_names()) {
    t.current = t.current.detach().clone().requires_grad_();
    const Objective o = objective(t, doubles({1, -1}), {}, *preset(name));
    o.loss.backward();
    EXPECT_TRUE(o.loss.isfinite().item<bool>() && t.current.grad().isfinite().all().item<bool>()) << name;
  }
}

TEST(ObjectiveTest, GradientsOfEveryPresetAgainstFiniteDifferences) {
  at::manual_seed(3);
  for (const std::string& name : preset_names()) {
    Tokens t;
    const std::int64_t n = 24;
    t.old = -at::rand({n}, at::kDouble) - 0.1;
    t.rollout = t.old + 0.01 * at::randn({n}, at::kDouble);
    t.reference = t.old + 0.1 * at::randn({n}, at::kDouble);
    t.mask = (at::rand({n}) > 0.2).to(at::kDouble);
    t.response = at::arange(n).div(6, "floor");
    t.responses = 4;
    const at::Tensor a = at::randn({4}, at::kDouble);
    ObjectiveConfig config = *preset(name);
    config.kl_coefficient = 0.1;
    config.token_constant = 7;
    config.sequence_mask.delta = 1;  // masks that jump have no derivative: keep away from their edges
    config.sequence_mask.low = 0.5;
    config.sequence_mask.high = 2;
    const at::Tensor start = t.old + 0.05 * at::randn({n}, at::kDouble);
    const auto loss = [&](const at::Tensor& x) {
      Tokens at_x = t;
      at_x.current = x;
      return objective(at_x, a, {}, config).loss;
    };
    const at::Tensor x = start.clone().requires_grad_();
    loss(x).backward();
    // The score-function form of CISPO, and GSPO-token's split, are gradients of no value: they are checked by hand above.
    if (name == "cispo" || name == "gspo_token") continue;
    for (std::int64_t i = 0; i < n; ++i) {
      const double h = 1e-6;
      at::Tensor up = start.clone(), down = start.clone();
      up[i] += h;
      down[i] -= h;
      const double slope = (loss(up).item<double>() - loss(down).item<double>()) / (2 * h);
      EXPECT_NEAR(at_(x.grad(), i), slope, 1e-6) << name << " token " << i;
    }
  }
}

TEST(ObjectiveTest, OnPolicyAllMethodsPointTheSameWay) {
  // At ratio 1 without KL the gradient of every token-mean method is −A/N.
  for (const char* name : {"dapo", "tis", "icepop", "geo_rs", "opsm", "mirrorpop"}) {
    Tokens t = two();
    t.old = t.rollout = at::Tensor();
    t.current = t.current.detach().clone().requires_grad_();
    objective(t, doubles({2, -1}), {}, *preset(name)).loss.backward();
    EXPECT_TRUE(at::allclose(t.current.grad(), doubles({-0.4, -0.4, 0.2, 0.2, 0.2}), 1e-12)) << name;
  }
}

TEST(ObjectiveTest, ClipsAreCountedWhereTheyBite) {
  const Tokens t = two();  // ratios 2, 0.5 | 1.1, 1, 1
  ObjectiveConfig c;
  c.normalisation = Normalisation::kTokenMean;
  const auto metrics = objective(t, doubles({1, -1}), {}, c).metrics;
  EXPECT_NEAR(metrics.at("clipped_high"), 0.2, 1e-12);  // 2 with A > 0
  EXPECT_NEAR(metrics.at("clipped_low"), 0, 1e-12);     // 0.5 has A > 0: min() leaves it
  EXPECT_NEAR(metrics.at("log_ratio_abs_mean"), (2 * std::log(2.0) + std::log(1.1)) / 5, 1e-12);
}

TEST(ObjectiveTest, BadSizesAndNamesAreErrors) {
  EXPECT_FALSE(preset("ppo2"));
  EXPECT_NE(preset("ppo2").error().message.find("mirrorpop"), std::string::npos);
  Tokens t = two();
  EXPECT_THROW(objective(t, doubles({1}), {}, {}), c10::Error);
  t.response = integers({0, 0, 1, 1, 2});
  EXPECT_THROW(objective(t, doubles({1, 1}), {}, {}), c10::Error);
  t = two();
  t.rollout = doubles({1});
  EXPECT_THROW(objective(t, doubles({1, 1}), {}, {}), c10::Error);
}

TEST(Advantage, ByHand) {
  const at::Tensor r = doubles({1, 2, NAN, 6, 5, 5}), g = integers({7, 7, 7, 7, 1, 1});
  // group 7 without the null: mean 3, deviations −2, −1, 3, sample variance 7
  const auto of = [&](AdvantageKind kind) { return group_advantages(r, g, {.kind = kind, .epsilon = 0.5}); };
  const Advantages grpo = of(AdvantageKind::kGrpo);
  const double s = std::sqrt(7.0) + 0.5;
  EXPECT_TRUE(at::allclose(grpo.values, doubles({-2 / s, -1 / s, 0, 3 / s, 0, 0}), 1e-12));
  EXPECT_TRUE(at::equal(grpo.valid, at::tensor(std::vector<std::int64_t>{1, 1, 0, 1, 1, 1}).to(at::kBool)));
  EXPECT_TRUE(at::equal(grpo.informative, at::tensor(std::vector<std::int64_t>{1, 1, 0, 1, 0, 0}).to(at::kBool)));
  EXPECT_TRUE(at::allclose(of(AdvantageKind::kDrGrpo).values, doubles({-2, -1, 0, 3, 0, 0}), 1e-12));
  EXPECT_TRUE(at::allclose(of(AdvantageKind::kRloo).values, doubles({-3, -1.5, 0, 4.5, 0, 0}), 1e-12));  // 1 − (2+6)/2 = −3
  EXPECT_TRUE(at::allclose(of(AdvantageKind::kNone).values, doubles({1, 2, 0, 6, 5, 5}), 1e-12));
}

TEST(Advantage, ShiftAndScaleDoNotMatterAndEqualRewardsGiveNothing) {
  const at::Tensor g = at::zeros({4}, at::kLong), r = doubles({-1, 0.3, 1.2, 1.2});
  const at::Tensor base = group_advantages(r, g, {.epsilon = 0}).values;
  EXPECT_TRUE(at::allclose(group_advantages(r * 3 + 5, g, {.epsilon = 0}).values, base, 1e-9));
  EXPECT_TRUE(at::equal(group_advantages(at::full({4}, 0.1, at::kDouble), g).values, at::zeros({4}, at::kDouble)));
}

TEST(Advantage, OverlongPenalty) {
  // longest 100, cache 20: free up to 80
  EXPECT_TRUE(at::allclose(overlong_penalty(integers({10, 80, 90, 100, 500}), 100, 20), doubles({0, 0, -0.5, -1, -1}), 1e-12));
}

}  // namespace
}  // namespace musacoder::rl
