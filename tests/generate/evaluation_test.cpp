// Metrics by hand: three tasks of two families.
#include "generate/evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "generate/rft.h"

namespace musacoder::generate {
namespace {

using testing::HasSubstr;

const char* const kOneThreadARow = R"(
__global__ void k(const float* x, float* y, int n) { int r = blockIdx.x; float s = 0; for (int i = 0; i < n; ++i) s += x[r * n + i]; y[r] = s; }
void run(float* x, float* y, int m, int n) { k<<<m, 1>>>(x, y, n); })";
const char* const kWarpARow = R"(
__global__ void k(const float* x, float* y, int n) { float s = 0; for (int i = threadIdx.x; i < n; i += 32) s += x[blockIdx.x * n + i];
  for (int o = 16; o; o >>= 1) s += __shfl_down_sync(~0u, s, o); if (threadIdx.x == 0) y[blockIdx.x] = s; }
void run(float* x, float* y, int m, int n) { k<<<m, 32>>>(x, y, n); })";

Judgement judged(const std::string& task, int sample, const std::string& status, int turn = 1) {
  return {.task_key = task,
          .task = task,
          .family = task.substr(0, 1),
          .sample = sample,
          .turn = turn,
          .status = status,
          .kernels = kWarpARow};
}

TEST(Evaluation, CountsByHand) {
  Evaluation evaluation({.k = {1, 2}, .resamples = 200});
  // a1: 1 of 3 verified, and one without a verdict. a2: none of 3. b1: both; one of them in its second turn.
  for (int i = 0; i < 3; ++i) evaluation.add(judged("a1", i, i == 0 ? "ok" : "compile_error:nvcc"));
  evaluation.add(judged("a1", 3, "infra:device"));
  for (int i = 0; i < 3; ++i) evaluation.add(judged("a2", i, "correctness_error:values"));
  evaluation.add(judged("b1", 0, "ok"));
  evaluation.add(judged("b1", 1, "runtime_error:race", 1));
  Judgement second = judged("b1", 1, "ok", 2);
  second.kernels = kOneThreadARow;
  evaluation.add(second);
  const auto report = evaluation.report();
  ASSERT_EQ(report.families.size(), 2u);
  const auto& a = report.families[0];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.tasks, 2u);
  EXPECT_EQ(a.tasks_verified, 1u);
  EXPECT_EQ(a.decided, 6u);
  EXPECT_EQ(a.nulls, 1u);
  // Pass@1 = (1/3 + 0) / 2; Pass@2 = ((1 − C(2,2)/C(3,2)) + 0) / 2 = (2/3) / 2.
  EXPECT_NEAR(*a.pass_at.at(1).value, 1.0 / 6, 1e-12);
  EXPECT_NEAR(*a.pass_at.at(2).value, 1.0 / 3, 1e-12);
  EXPECT_FALSE(a.faster.value);
  const auto& all = report.overall;
  EXPECT_NEAR(*all.pass_at.at(1).value, (1.0 / 3 + 0 + 1) / 3, 1e-12);
  EXPECT_NEAR(*all.avg.value, (1.0 / 3 + 0 + 1) / 3, 1e-12);
  EXPECT_NEAR(*all.first_turn.value, (1.0 / 3 + 0 + 0.5) / 3, 1e-12);
  EXPECT_NEAR(*report.families[1].distinct.value, 2, 1e-12);
  EXPECT_NEAR(*report.families[1].entropy.value, std::log(2.0), 1e-12);
  EXPECT_LE(all.pass_at.at(1).low, *all.pass_at.at(1).value);
  EXPECT_GE(all.pass_at.at(1).high, *all.pass_at.at(1).value);
  // Draws of three of three tasks reach from none verified to all.
  EXPECT_NEAR(all.pass_at.at(1).low, 0, 0.12);
  EXPECT_NEAR(all.pass_at.at(1).high, 1, 0.25);
  EXPECT_EQ(to_json(report)["overall"]["verified"], 3);
  EXPECT_THAT(evaluation_table(report, true), HasSubstr("| overall"));
}

TEST(Evaluation, FasterIsOfMeasuredOnesAndNullWhereNoneIs) {
  Evaluation evaluation({.resamples = 10});
  Judgement fast = judged("a1", 0, "ok");
  fast.speedup_eager = 1.2;
  evaluation.add(fast);
  Judgement slow = judged("a1", 1, "ok");
  slow.speedup_eager = 1.05;
  evaluation.add(slow);
  EXPECT_NEAR(*evaluation.report().overall.faster.value, 0.5, 1e-12);
  EXPECT_FALSE(Evaluation({}).report().overall.pass_at.at(1).value);
}

RftAnswer answer(const std::string& task, const std::string& kernels, double speed) {
  return {.task = task,
          .task_hash = task + std::string(63, '0'),
          .family = "f",
          .messages = {{"user", "ask"}},
          .answer = "```" + kernels + "```",
          .kernels = kernels,
          .speed = speed,
          .candidate_hash = std::string(64, 'c'),
          .backend = "vgpu"};
}

TEST(Rft, PoolsKeepDifferentWaysAndBestKeepsOne) {
  RftData data({.least = 1, .most = 8});
  data.add(answer("1", kOneThreadARow, 1));
  data.add(answer("1", kOneThreadARow, 1));
  data.add(answer("1", kWarpARow, 3));
  data.add(answer("2", kWarpARow, 1));
  const RftRows rows = data.rows();
  ASSERT_EQ(rows.lines.size(), 3u);
  ASSERT_EQ(rows.best.size(), 2u);
  EXPECT_EQ(rows.summary.verified, 4u);
  EXPECT_EQ(rows.summary.different, 3u);
  EXPECT_NEAR(rows.summary.distinct, 1.5, 1e-12);
  // Task 1: shares 2/3 and 1/3; task 2: one way.
  EXPECT_NEAR(rows.summary.entropy, -(2.0 / 3 * std::log(2.0 / 3) + 1.0 / 3 * std::log(1.0 / 3)) / 2, 1e-12);
  EXPECT_NEAR(rows.summary.pool_entropy, std::log(2.0) / 2, 1e-12);
  std::map<std::string, int> groups;
  for (const auto& line : rows.lines) {
    const auto row = nlohmann::json::parse(line);
    ++groups[row["group"]];
    EXPECT_EQ(row["messages"][0]["content"], "ask");
    EXPECT_EQ(row["messages"].back()["role"], "assistant");
    EXPECT_EQ(row["kind"], "generate");
    EXPECT_EQ(row["verdict"]["status"], "ok");
  }
  EXPECT_EQ(groups.size(), 2u);
  const auto best = nlohmann::json::parse(rows.best[0]);
  EXPECT_FALSE(best.contains("group"));
  EXPECT_THAT(best["messages"].back()["content"].get<std::string>(), HasSubstr("__shfl_down_sync"));
}

}  // namespace
}  // namespace musacoder::generate
