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

TEST(Metrics, UndecidedSamplesBoundPassAndAvg) {
  Metrics metrics({.k = {1, 2}});
  for (const char* status : {"ok", "compile_error:nvcc", "infra:disk", "inconclusive:budget"}) metrics.add(sample("a", status));
  for (const char* status : {"runtime_error:oom", "infra:disk"}) metrics.add(sample("b", status));
  const GroupMetrics all = metrics.report().overall;
  // a: (n, c) = (2, 1), bounds (4, 1) and (4, 3). b: (1, 0), bounds (2, 0) and (2, 1).
  EXPECT_DOUBLE_EQ(*all.pass_at.at(1).value, 0.25);
  EXPECT_DOUBLE_EQ(*all.pass_at.at(1).lower, 0.125);
  EXPECT_DOUBLE_EQ(*all.pass_at.at(1).upper, 0.625);
  EXPECT_DOUBLE_EQ(*all.avg_at.at(1).lower, 0.125);
  EXPECT_DOUBLE_EQ(*all.avg_at.at(1).upper, 0.625);
  // Pass@2: b has fewer than two decided samples, but two in all. a: 1 − C(3,2)/C(4,2) = 0.5, and 1.
  EXPECT_DOUBLE_EQ(*all.pass_at.at(2).value, 1);
  EXPECT_EQ(all.pass_at.at(2).left_out, 1u);
  EXPECT_DOUBLE_EQ(*all.pass_at.at(2).lower, 0.25);
  EXPECT_DOUBLE_EQ(*all.pass_at.at(2).upper, 1);
  EXPECT_THAT(metrics_text(metrics.report()), ::testing::HasSubstr("12.5–62.5 %"));
}

TEST(Metrics, WithoutUndecidedSamplesTheBoundsAreTheValue) {
  Metrics metrics({.k = {1}});
  for (const char* status : {"ok", "compile_error:nvcc"}) metrics.add(sample("a", status));
  const MetricsReport report = metrics.report();
  EXPECT_EQ(report.overall.pass_at.at(1).lower, report.overall.pass_at.at(1).value);
  EXPECT_EQ(report.overall.pass_at.at(1).upper, report.overall.pass_at.at(1).value);
  EXPECT_THAT(metrics_text(report), ::testing::Not(::testing::HasSubstr("bounds")));
}

TEST(Metrics, TasksWithoutASampleAreUnsolved) {
  Metrics metrics({.k = {1, 2}});
  for (const char* task : {"a", "b", "c", "d"}) metrics.add_task(task, "1");
  metrics.add_task("e", "2");
  metrics.add(sample("a", "ok", 2.0));
  metrics.add(sample("a", "ok", 1.0));
  metrics.add(sample("b", "ok", 3.0));
  metrics.add(sample("b", "compile_error:nvcc"));
  const MetricsReport report = metrics.report();
  ASSERT_EQ(report.levels.size(), 2u);
  const GroupMetrics& one = report.levels[0];
  EXPECT_EQ(one.tasks, 4u);
  EXPECT_EQ(one.unsampled, 2u);
  EXPECT_DOUBLE_EQ(*one.pass_at.at(1).value, 0.375);   // (1 + 0.5 + 0 + 0) / 4
  EXPECT_DOUBLE_EQ(*one.pass_at.at(2).value, 0.5);     // (1 + 1 + 0 + 0) / 4
  EXPECT_DOUBLE_EQ(*one.pass_at.at(2).lower, 0.5);
  EXPECT_EQ(one.pass_at.at(2).left_out, 0u);
  EXPECT_DOUBLE_EQ(*one.faster_eager, 0.25);           // 2 of 4 samples, were there 8
  EXPECT_DOUBLE_EQ(*one.fast_p_eager.at(0), 0.375);    // 3 of 8
  EXPECT_DOUBLE_EQ(*report.levels[1].pass_at.at(1).value, 0);
  EXPECT_FALSE(report.levels[1].faster_eager.has_value());
  EXPECT_EQ(report.overall.tasks, 5u);
  EXPECT_DOUBLE_EQ(*report.overall.pass_at.at(1).value, 0.3);
  EXPECT_DOUBLE_EQ(*report.overall.faster_eager, 0.2);
  EXPECT_THAT(metrics_text(report), ::testing::HasSubstr("3 of 5 tasks have no sample and count as unsolved."));
}

TEST(Metrics, NothingIsFasterWhereNothingIsVerified) {
  Metrics metrics({.k = {1}});
  Sample wrong = sample("a", "correctness_error:values");
  metrics.add(wrong);
  EXPECT_FALSE(metrics.report().overall.faster_eager.has_value());   // judged where no time is measured
  wrong.timed = true;
  metrics.add(wrong);
  EXPECT_DOUBLE_EQ(*metrics.report().overall.faster_eager, 0);
  metrics.add(sample("a", "ok"));                                    // verified, and its time is not known
  EXPECT_FALSE(metrics.report().overall.faster_eager.has_value());
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
