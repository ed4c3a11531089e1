#include "train/run/schedule.h"

#include <gtest/gtest.h>

namespace musacoder::train {
namespace {

TEST(Schedule, WarmsUpAndFalls) {
  const Schedule cosine{Schedule::Kind::kCosine, 12, 2, 0};
  EXPECT_DOUBLE_EQ(cosine.factor(0), 0.5);
  EXPECT_DOUBLE_EQ(cosine.factor(1), 1);
  EXPECT_DOUBLE_EQ(cosine.factor(2), 1);
  EXPECT_DOUBLE_EQ(cosine.factor(7), 0.5);
  EXPECT_NEAR(cosine.factor(11), (1 - 0.9510565162951535) / 2, 1e-15);  // cos(0.9 pi)
  EXPECT_NEAR(cosine.factor(12), 0, 1e-15);
  const Schedule linear{Schedule::Kind::kLinear, 12, 2, 0.2};
  EXPECT_DOUBLE_EQ(linear.factor(7), 0.6);
  EXPECT_DOUBLE_EQ(linear.factor(12), 0.2);
  EXPECT_DOUBLE_EQ((Schedule{Schedule::Kind::kConstant, 12, 2, 0}).factor(11), 1);
  EXPECT_DOUBLE_EQ((Schedule{Schedule::Kind::kCosine, 1, 0, 0}).factor(0), 1);
  EXPECT_DOUBLE_EQ((Schedule{Schedule::Kind::kLinear, 2, 2, 0}).factor(1), 1);
}

}  // namespace
}  // namespace musacoder::train
