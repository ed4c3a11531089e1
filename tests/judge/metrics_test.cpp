#include "judge/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace musacoder::judge {
namespace {

Sample sample(const std::string& task, const std::string& status, std::optional<double> eager = {}) {
  return {.task = task, .level = "1", .status = status, .speedup_eager = eager, .speedup_compile = {}, .reward = {}};
}

TEST(PassAtK, CalculatedByHand) {
  EXPECT_DOUBLE_EQ(pass_at_k(8, 2, 1), 0.25);
  EXPECT_NEAR(pass_at_k(5, 2, 3), 0.9, 1e-12);            // 1 − C(3,3)/C(5,3) = 1 − 1/10
  EXPECT_NEAR(pass_at_k(10, 1, 5), 0.5, 1e-12);           // 1 − C(9,5)/C(10,5) = 1 − 126/252
  EXPECT_DOUBLE_EQ(pass_at_k(8, 0, 8), 0);
  EXPECT_DOUBLE_EQ(pass_at_k(8, 1, 8), 1);
  EXPECT_NEAR(pass_at_k(1000, 1, 1), 0.001, 1e-12);
  EXPECT_NEAR(pass_at_k(100000, 50000, 3), 0.875, 1e-4);  // ≈ 1 − 1/8, and no overflow
}

TEST(Metrics, GroupsByTaskAndLeavesNullsOut) {
  Metrics metrics({.k = {1, 2}});
  for (const char* status : {"ok", "correctness_error:values", "infra:disk"}) metrics.add(sample("a", status));
  for (const char* status : {"compile_error:nvcc", "compile_error:nvcc"}) metrics.add(sample("b", status));
  metrics.add(sample("c", "unsupported:ptx:x"));
  const GroupMetrics all = metrics.report().overall;
  EXPECT_EQ(all.tasks, 3u);
  EXPECT_EQ(all.samples, 6u);
  EXPECT_EQ(all.decided, 4u);
  EXPECT_EQ(all.nulls, 2u);
  EXPECT_EQ(all.tasks_verified, 1u);
  EXPECT_DOUBLE_EQ(*all.pass_at.at(1).value, 0.25);   // (1/2 + 0) / 2
  EXPECT_DOUBLE_EQ(*all.pass_at.at(2).value, 0.5);    // (1 + 0) / 2
  EXPECT_DOUBLE_EQ(*all.avg_at.at(2).value, 0.25);
  EXPECT_EQ(all.pass_at.at(1).left_out, 1u);
  EXPECT_DOUBLE_EQ(all.pass_at.at(1).standard_error, 0.25);  // values 0.5 and 0: s = 0.35355, / √2
  EXPECT_FALSE(all.faster_eager.has_value());
  EXPECT_DOUBLE_EQ(*all.fast_p_eager.at(0), 0.25);
  EXPECT_FALSE(all.fast_p_eager.at(1).has_value());
}

TEST(Metrics, FasterAndFastPOverMeasuredSamples) {
  Metrics metrics;
  metrics.add(sample("a", "ok", 1.05));
  metrics.add(sample("a", "ok", 1.1));    // not more than 1.1
  metrics.add(sample("a", "ok", 1.6));
  metrics.add(sample("a", "ok"));         // no time: leaves the denominator
  metrics.add(sample("a", "runtime_error:oom"));
  const GroupMetrics all = metrics.report().overall;
  EXPECT_DOUBLE_EQ(*all.faster_eager, 0.25);          // 1 of 3 measured + 1 wrong
  EXPECT_DOUBLE_EQ(*all.fast_p_eager.at(1), 0.75);
  EXPECT_DOUBLE_EQ(*all.fast_p_eager.at(1.5), 0.25);
  EXPECT_DOUBLE_EQ(*all.fast_p_eager.at(0), 0.8);
  EXPECT_FALSE(all.faster_compile.has_value());
}

TEST(Metrics, SameTaskNameOnTwoLevelsIsTwoTasks) {
  Metrics metrics({.k = {1}});
  for (const char* level : {"10", "2"}) {
    Sample one = sample("1", "ok");
    one.level = level;
    metrics.add(one);
  }
  const MetricsReport report = metrics.report();
  EXPECT_EQ(report.overall.tasks, 2u);
  ASSERT_EQ(report.levels.size(), 2u);
  EXPECT_EQ(report.levels[0].name, "level 2");
  EXPECT_EQ(report.levels[1].name, "level 10");
}

TEST(Metrics, NothingDecidedIsNullNotZero) {
  Metrics metrics({.k = {1}});
  metrics.add(sample("a", "infra:disk"));
  const MetricsReport report = metrics.report();
  EXPECT_FALSE(report.overall.pass_at.at(1).value.has_value());
  EXPECT_FALSE(report.overall.fast_p_eager.at(0).has_value());
  EXPECT_TRUE(to_json(report)["overall"]["pass_at"]["1"]["value"].is_null());
  EXPECT_THAT(metrics_text(report), ::testing::HasSubstr("1 of 1 verdicts say nothing about a candidate"));
}

}  // namespace
}  // namespace musacoder::judge
