#include "cli/bench_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/batch.h"

namespace musacoder::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

// Two tasks of level 1, one of level 2, and samples that the tests give verdicts to.
class BenchTableTest : public ::testing::Test {
 protected:
  BenchTableTest() {
    std::string rows;
    for (const auto& [level, id] : {std::pair{1, 19}, {1, 23}, {2, 1}})
      rows += json({{"level", level},
                    {"id", id},
                    {"name", std::to_string(id) + "_x"},
                    {"code", "class Model: pass"}})
                  .dump() +
              "\n";
    suite_ = *Suite::of(*task::TaskSet::from_jsonl(rows, "suite.jsonl"), "any", {});
  }

  void samples(const std::string& task, int count) {
    std::istringstream in(
        json({{"task", task},
              {"samples", std::vector<std::string>(static_cast<std::size_t>(count), "answer")}})
            .dump());
    for (BenchSample& sample : read_sample_rows(in, "s.jsonl", suite_).samples)
      samples_.push_back(std::move(sample));
  }

  // The verdict line that run_batch would write for a sample.
  judge::VerdictRow verdict(std::size_t sample, const std::string& status, const std::string& cause = "",
                            std::optional<double> eager = {}) const {
    judge::Verdict v;
    v.task = samples_[sample].task->id;
    v.status = status;
    v.cause = cause;
    v.backend = eager ? "cuda" : "vgpu";
    v.speedup_eager = v.speedup_compile = eager;
    json line = judge::to_json(v);
    line["row_key"] = row_key(batch_row(samples_[sample]));
    return *judge::row_from_text(line.dump());
  }

  Suite suite_;
  std::vector<BenchSample> samples_;
};

TEST_F(BenchTableTest, LevelsTotalAndTasksWithoutSamples) {
  samples("level1/19", 2);
  samples("level2/1", 2);
  BenchTable table(suite_, samples_, {.k = {1, 2}});
  EXPECT_TRUE(table.add(verdict(0, "ok")));
  EXPECT_TRUE(table.add(verdict(1, "compile_error:nvcc")));
  EXPECT_TRUE(table.add(verdict(2, "ok")));
  EXPECT_TRUE(table.add(verdict(3, "ok")));
  const BenchReport report = table.report();
  EXPECT_TRUE(report.all_decided());
  EXPECT_EQ(report.unsampled, std::vector<std::string>{"level1/23"});
  ASSERT_EQ(report.metrics.levels.size(), 2u);
  EXPECT_DOUBLE_EQ(*report.metrics.levels[0].pass_at.at(1).value, 0.25);  // (1/2 + 0) / 2
  EXPECT_DOUBLE_EQ(*report.metrics.levels[0].pass_at.at(2).value, 0.5);
  EXPECT_DOUBLE_EQ(*report.metrics.overall.pass_at.at(1).value, 0.5);  // (1/2 + 0 + 1) / 3
  const std::string text = bench_text(report);
  EXPECT_THAT(text, HasSubstr("level 1"));
  EXPECT_THAT(text, HasSubstr("1 of 3 tasks have no sample and count as unsolved."));
  EXPECT_THAT(text, HasSubstr("the virtual GPU measures none"));
  EXPECT_THAT(text, Not(HasSubstr("bounds")));
  EXPECT_THAT(text, Not(HasSubstr("cause")));
}

TEST_F(BenchTableTest, OnlySampledLeavesTasksOut) {
  samples("level1/19", 1);
  BenchTable table(suite_, samples_, {.k = {1}, .only_sampled = true});
  table.add(verdict(0, "ok"));
  const BenchReport report = table.report();
  EXPECT_EQ(report.metrics.overall.tasks, 1u);
  EXPECT_DOUBLE_EQ(*report.metrics.overall.pass_at.at(1).value, 1);
  EXPECT_EQ(report.unsampled.size(), 2u);
  EXPECT_THAT(bench_text(report), HasSubstr("2 of 3 tasks have no sample and are left out."));
}

TEST_F(BenchTableTest, UndecidedSamplesAreListedAndBoundTheRates) {
  samples("level1/19", 4);
  BenchTable table(suite_, samples_, {.k = {1}, .only_sampled = true});
  table.add(verdict(0, "ok"));
  table.add(verdict(1, "runtime_error:oom"));
  table.add(verdict(2, "infra:disk", "no room in \x1b[31m/tmp"));
  table.add(verdict(3, "unsupported:ptx:wgmma", "wgmma.mma_async"));
  const BenchReport report = table.report();
  EXPECT_FALSE(report.all_decided());
  ASSERT_EQ(report.undecided.size(), 2u);
  EXPECT_EQ(report.undecided[0].status, "infra:disk");
  EXPECT_EQ(report.undecided[1].index, 3);
  EXPECT_DOUBLE_EQ(*report.metrics.overall.pass_at.at(1).value, 0.5);
  EXPECT_DOUBLE_EQ(*report.metrics.overall.pass_at.at(1).lower, 0.25);
  EXPECT_DOUBLE_EQ(*report.metrics.overall.pass_at.at(1).upper, 0.75);
  const std::string text = bench_text(report);
  EXPECT_THAT(text, HasSubstr("2 of 4"));
  EXPECT_THAT(text, HasSubstr("25.0–75.0 %"));
  EXPECT_THAT(text, HasSubstr("wgmma.mma_async"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(bench_text(report, 1), HasSubstr("… and 1 more"));
  const json all = to_json(report);
  EXPECT_EQ(all["undecided"].size(), 2u);
  EXPECT_EQ(all["undecided"][1]["cause"], "wgmma.mma_async");
  EXPECT_EQ(all["overall"]["pass_at"]["1"]["upper"], 0.75);
  EXPECT_EQ(all["all_decided"], false);
}

TEST_F(BenchTableTest, SamplesWithoutAVerdictAreUndecidedAndNotFailures) {
  samples("level1/19", 2);
  BenchTable table(suite_, samples_, {.k = {1}, .only_sampled = true});
  table.add(verdict(0, "ok"));
  const BenchReport report = table.report();
  EXPECT_FALSE(report.all_decided());
  EXPECT_EQ(report.judged, 1u);
  EXPECT_TRUE(report.undecided.empty());
  EXPECT_DOUBLE_EQ(*report.metrics.overall.pass_at.at(1).value, 1);
  EXPECT_DOUBLE_EQ(*report.metrics.overall.pass_at.at(1).lower, 0.5);
  EXPECT_THAT(bench_text(report), HasSubstr("1 of 2 samples are not judged yet and count as undecided."));
}

TEST_F(BenchTableTest, VerdictsOfOtherSamplesDoNotCount) {
  samples("level1/19", 2);
  std::vector<BenchSample> first(samples_.begin(), samples_.begin() + 1);
  BenchTable table(suite_, first, {.k = {1}});
  EXPECT_TRUE(table.add(verdict(0, "ok")));
  EXPECT_FALSE(table.add(verdict(1, "ok")));
  const BenchReport report = table.report();
  EXPECT_EQ(report.other_verdicts, 1u);
  EXPECT_EQ(report.metrics.overall.samples, 1u);
}

TEST_F(BenchTableTest, FasterWhereTimesAreMeasured) {
  samples("level1/19", 2);
  BenchTable table(suite_, samples_, {.k = {1}, .only_sampled = true});
  table.add(verdict(0, "ok", "", 1.5));
  table.add(verdict(1, "ok", "", 1.05));
  const BenchReport report = table.report();
  EXPECT_DOUBLE_EQ(*report.metrics.overall.faster_eager, 0.5);
  EXPECT_DOUBLE_EQ(*report.metrics.overall.faster_compile, 0.5);
  EXPECT_THAT(bench_text(report), HasSubstr("50.0 %"));
  EXPECT_THAT(bench_text(report), Not(HasSubstr("measures none")));
}

// Two tasks of level 1 and one of level 2, eight samples each; what is counted was calculated by hand.
class MusaSuiteTest : public BenchTableTest {
 protected:
  MusaSuiteTest() {
    std::string rows;
    for (const auto& [level, id] : {std::pair{1, 19}, {1, 23}, {2, 1}})
      rows += json({{"level", level}, {"id", id}, {"code", "class Model: pass"}}).dump() + "\n";
    suite_ = *Suite::of(*task::TaskSet::from_jsonl(rows, "suite.jsonl"), "musa-kernelbench", {});
  }
  judge::VerdictRow musa(std::size_t sample, const std::string& status, std::optional<double> eager = {}, const std::string& dialect = "musa") const {
    judge::VerdictRow row = verdict(sample, status, "", eager);
    row.verdict.dialect = dialect;
    return row;
  }
};

TEST_F(MusaSuiteTest, HasThePapersColumns) {
  for (const char* task : {"level1/19", "level1/23", "level2/1"}) samples(task, 8);
  BenchTable table(suite_, samples_, {.k = {8}});
  for (std::size_t i = 0; i < 24; ++i) {
    const bool solved = i < 4 || i == 16;                       // four of eight, none, one of eight
    table.add(musa(i, solved ? "ok" : "correctness_error:values", solved ? std::optional(i < 2 ? 1.5 : 0.9) : std::nullopt));
  }
  const std::string text = musa_table(table.report().metrics);
  EXPECT_THAT(text, HasSubstr("Overall"));
  EXPECT_THAT(text, HasSubstr("L1"));
  EXPECT_THAT(text, HasSubstr("L2"));
  EXPECT_THAT(text, HasSubstr("Pass@8 / Avg@8 / Faster"));
  EXPECT_THAT(text, HasSubstr("66.7 / 20.8 / 8.3"));     // 2 of 3 tasks, (4/8 + 0 + 1/8) / 3, 2 of 24 samples
  EXPECT_THAT(text, HasSubstr("50.0 / 25.0 / 12.5"));    // level 1
  EXPECT_THAT(text, HasSubstr("100.0 / 12.5 / 0.0"));    // level 2
}

TEST_F(MusaSuiteTest, AnswersInCudaDoNotCount) {
  samples("level1/19", 4);
  BenchTable table(suite_, samples_, {.k = {1}, .only_sampled = true});
  EXPECT_TRUE(table.add(musa(0, "ok")));
  EXPECT_TRUE(table.add(musa(1, "ok", 2.0, "cuda")));
  EXPECT_TRUE(table.add(musa(2, "unsupported:dialect", {}, "cuda")));
  EXPECT_TRUE(table.add(musa(3, "unsupported:ptx:x", {}, "cuda")));   // says nothing in any suite
  const BenchReport report = table.report();
  EXPECT_EQ(report.other_dialect, 2u);
  EXPECT_EQ(report.metrics.overall.verified, 1u);
  EXPECT_EQ(report.metrics.overall.decided, 3u);
  EXPECT_THAT(bench_text(report), HasSubstr("2 samples are CUDA, not MUSA"));
}

}  // namespace
}  // namespace musacoder::cli
