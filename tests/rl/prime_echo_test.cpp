// PrimeEcho against examples worked by hand from the paper's equations.
#include "rl/prime_echo.h"

#include <gtest/gtest.h>

#include <cmath>

namespace musacoder::rl {
namespace {

TEST(PrimeEcho, ByHand) {
  // α = 0.75, β1 = 0.2, β2 = 0.1
  EXPECT_NEAR(prime_echo({1.5}, {}).reward, 1.5 + 0.2, 1e-12);               // right at once: s_1 + β1
  EXPECT_NEAR(prime_echo({-1, 1}, {}).reward, -0.75 + 0.25 + 0.1, 1e-12);    // repaired: 0.75·(−1) + 0.25·1 + β2
  EXPECT_NEAR(prime_echo({-1, -0.2, 1.4}, {}).reward, -0.75 + 0.35, 1e-12);  // third turn: no bonus
  EXPECT_NEAR(prime_echo({-1, -1, -1}, {}).reward, -1, 1e-12);
  EXPECT_NEAR(prime_echo({-0.1, -1}, {}).reward, -0.1, 1e-12);               // the best turn is the first
  EXPECT_EQ(prime_echo({-1, 0.9, 1.2}, {}).success_turn, 3);                 // eq. 22: success is a score of at least 1
  EXPECT_EQ(prime_echo({1}, {}).success_turn, 1);
}

TEST(PrimeEcho, TheEndsOfAlpha) {  // eq. 11
  EXPECT_NEAR(prime_echo({-1, 1}, {.alpha = 1}).reward, -1 + 0.1, 1e-12);
  EXPECT_NEAR(prime_echo({-1, 1}, {.alpha = 0}).reward, 1 + 0.1, 1e-12);
}

TEST(PrimeEcho, OrderOfFailureRepairAndSuccess) {
  for (const double alpha : {0.25, 0.5, 0.75, 1.0}) {
    const EchoConfig c{.alpha = alpha};
    EXPECT_LT(prime_echo({-1, -1, -1}, c).reward, prime_echo({-1, 1}, c).reward);
    EXPECT_LT(prime_echo({-1, 1}, c).reward, prime_echo({1}, c).reward);
  }
}

TEST(PrimeEcho, NullTurns) {
  EXPECT_TRUE(std::isnan(prime_echo({}, {}).reward));
  EXPECT_TRUE(std::isnan(prime_echo({NAN, 1}, {}).reward));
  EXPECT_NEAR(prime_echo({-1, NAN, 1}, {}).reward, -1, 1e-12);  // what follows a null turn does not count
}

TEST(PrimeEcho, Checks) {
  EXPECT_TRUE(check(EchoConfig{}));
  EXPECT_TRUE(check(EchoConfig{.first_bonus = 0, .second_bonus = 0}));
  EXPECT_FALSE(check(EchoConfig{.alpha = 1.1}));
  EXPECT_FALSE(check(EchoConfig{.first_bonus = 0.1, .second_bonus = 0.1}));
  EXPECT_FALSE(check(EchoConfig{.first_bonus = 0.1, .second_bonus = -0.1}));
}

TEST(PrimeEcho, FirstTurnMask) {
  const at::Tensor turn = at::tensor(std::vector<std::int64_t>{0, 1, 1, 0, 2, 3});
  EXPECT_TRUE(at::equal(first_turn_mask(turn), at::tensor(std::vector<float>{0, 1, 1, 0, 0, 0})));
}

TEST(PrimeEcho, Metrics) {
  const TurnMetrics m = turn_metrics({{1.5}, {-1, 1}, {-1, -1, -1}, {NAN}, {-0.5, 0.1, 1.1}}, {});
  EXPECT_EQ(m.trajectories, 4);
  EXPECT_NEAR(m.first_accuracy, 0.25, 1e-12);
  EXPECT_NEAR(m.best_accuracy, 0.75, 1e-12);
  EXPECT_NEAR(m.first_score, (1.5 - 1 - 1 - 0.5) / 4, 1e-12);
  EXPECT_NEAR(m.best_score, (1.5 + 1 - 1 + 1.1) / 4, 1e-12);
  EXPECT_NEAR(m.turn_to_success, 2, 1e-12);  // 1, 2, 3
  EXPECT_NEAR(m.turns, (1 + 2 + 3 + 3) / 4.0, 1e-12);
}

}  // namespace
}  // namespace musacoder::rl
