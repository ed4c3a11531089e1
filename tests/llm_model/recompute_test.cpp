// Activation checkpointing: what runs how often, and who gets gradients.
#include "llm/model/recompute.h"

#include <gtest/gtest.h>

namespace musacoder::llm {
namespace {

TEST(Recomputed, RunsAgainForTheGradientAndGivesTheSame) {
  at::manual_seed(1);
  const at::Tensor w = at::randn({3, 3}).requires_grad_(true), x = at::randn({2, 3}).requires_grad_(true);
  at::tanh(at::mm(x, w)).sum().backward();
  const at::Tensor of_w = w.grad().clone(), of_x = x.grad().clone();
  w.mutable_grad() = x.mutable_grad() = at::Tensor();

  int runs = 0;
  const at::Tensor y = recomputed(x, [&](const at::Tensor& in) {
    ++runs;
    return at::tanh(at::mm(in, w));
  });
  EXPECT_EQ(runs, 1);
  y.sum().backward();
  EXPECT_EQ(runs, 2);
  EXPECT_TRUE(at::equal(w.grad(), of_w));
  EXPECT_TRUE(at::equal(x.grad(), of_x));
}

TEST(Recomputed, WeightsGetGradientsWhereTheInputHasNone) {
  const at::Tensor w = at::ones({3, 3}).requires_grad_(true), x = at::ones({2, 3});
  recomputed(x, [&](const at::Tensor& in) { return at::mm(in, w); }).sum().backward();
  EXPECT_TRUE(at::equal(w.grad(), at::full({3, 3}, 2.0)));
}

TEST(Recomputed, RunsOnceWithoutGradients) {
  const at::NoGradGuard no_grad;
  int runs = 0;
  const at::Tensor y = recomputed(at::ones({2}), [&](const at::Tensor& in) {
    ++runs;
    return in + 1;
  });
  EXPECT_EQ(runs, 1);
  EXPECT_FALSE(y.requires_grad());
}

}  // namespace
}  // namespace musacoder::llm
