#include "cli/bench_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/files.h"

namespace musacoder::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::string task_row(int level, int id, const std::string& name) {
  return json({{"level", level}, {"id", id}, {"name", name}, {"code", "class Model: pass  # " + name}})
             .dump() +
         "\n";
}

Suite suite(const std::string& name = "any", const std::vector<int>& levels = {}) {
  const std::string rows = task_row(1, 19, "19_ReLU") + task_row(1, 23, "23_Softmax") +
                           task_row(2, 1, "1_Conv2D_ReLU_BiasAdd") + task_row(4, 3, "3_gpt2");
  return *Suite::of(*task::TaskSet::from_jsonl(rows, "suite.jsonl"), name, levels);
}

BenchSamples read(const std::string& rows, const Suite& from) {
  std::istringstream in(rows);
  return read_sample_rows(in, "s.jsonl", from);
}

TEST(Suite, KernelBenchIsItsFirstThreeLevels) {
  const Suite all = suite(), three = suite("kernelbench"), one = suite("kernelbench", {1});
  EXPECT_EQ(all.tasks().size(), 4u);
  EXPECT_TRUE(all.remarks().empty());
  EXPECT_EQ(three.tasks().size(), 3u);
  ASSERT_EQ(three.remarks().size(), 3u);
  EXPECT_EQ(three.remarks()[0], "kernelbench has 100 tasks of level 1; here are 2");
  EXPECT_EQ(one.tasks().size(), 2u);
  EXPECT_NE(one.find("level1/19"), nullptr);
  EXPECT_EQ(one.find("level2/1"), nullptr);
  EXPECT_TRUE(one.has_at_other_level("level2/1"));
  EXPECT_FALSE(one.has_at_other_level("level2/7"));
}

TEST(Suite, RefusesWhatIsNone) {
  auto set = [] { return *task::TaskSet::from_jsonl(task_row(1, 19, "19_ReLU"), "suite.jsonl"); };
  EXPECT_FALSE(Suite::of(set(), "kernelbanch", {}));
  auto empty = Suite::of(set(), "any", {7});
  ASSERT_FALSE(empty);
  EXPECT_THAT(empty.error().message, HasSubstr("no task of level 7"));
  EXPECT_FALSE(Suite::load("any", "/no/such/place", {}));
}

TEST(BenchSamples, EveryWayToNameATaskAndToGiveAnswers) {
  const Suite from = suite();
  const BenchSamples got = read(
      R"({"task": "level1/19", "candidate": "a"})"
      "\n\n"
      R"({"task_id": "1/19", "answer": "b"})"
      "\n"
      R"({"level": 1, "id": 19, "name": "19_ReLU.py", "samples": ["c", {"candidate": "d"}, {"answer": "e"}]})"
      "\n"
      R"({"level": "level1", "problem_id": "19", "name": "my run", "candidate": ""})"
      "\n"
      R"({"name": "23_Softmax", "candidate": "f"})"
      "\n"
      R"({"level": 2, "name": "1_Conv2D_ReLU_BiasAdd", "candidate": "g"})"
      "\n"
      R"({"level": 2, "id": "level2/1", "candidate": "h"})",
      from);
  EXPECT_TRUE(got.refused.empty()) << got.refused[0].source << ": " << got.refused[0].reason;
  std::string seen;
  for (const BenchSample& sample : got.samples)
    seen += sample.task->id + " " + std::to_string(sample.index) + " " + sample.candidate + " " +
            sample.source + "\n";
  EXPECT_EQ(
      seen,
      "level1/19 0 a s.jsonl:1\nlevel1/19 1 b s.jsonl:3\nlevel1/19 2 c s.jsonl:4\nlevel1/19 3 d s.jsonl:4\n"
      "level1/19 4 e s.jsonl:4\nlevel1/19 5  s.jsonl:5\nlevel1/23 0 f s.jsonl:6\nlevel2/1 0 g s.jsonl:7\n"
      "level2/1 1 h s.jsonl:8\n");
}

TEST(BenchSamples, UnusableRowsAreToldByLineAndStopNothing) {
  const Suite from = suite();
  const std::vector<std::pair<std::string, std::string>> rows = {
      {R"({"task": "level1/19", "candidate")", "not JSON"},
      {R"(["level1/19", "x"])", "no JSON object"},
      {R"({"candidate": "x"})", "names no task"},
      {R"({"level": 1, "candidate": "x"})", "names no task"},
      {R"({"task": 7.5, "candidate": "x"})", "names no task"},
      {R"({"task": "level1/99", "candidate": "x"})", "no task 'level1/99'"},
      {R"({"task": "level1/19"})", "has none"},
      {R"({"task": "level1/19", "candidate": "x", "answer": "y"})", "has `candidate`, `answer`"},
      {R"({"task": "level1/19", "candidate": null})", "`candidate` is no text"},
      {R"({"task": "level1/19", "samples": []})", "an empty one"},
      {R"({"task": "level1/19", "samples": "x"})", "no list"},
      {R"({"task": "level1/19", "samples": ["x", 3]})", "`samples`[1]"},
      {R"({"level": 1, "id": 19, "name": "19_GELU", "candidate": "x"})",
       "level1/19 is 19_ReLU in the suite, not 19_GELU"},
      {std::string(200, '['), ""},
      {"{\"task\": \"level1/19\", \"candidate\": \"\xff\"}", ""},
  };
  std::string text;
  for (const auto& [row, reason] : rows) text += row + "\n";
  const BenchSamples got = read(text + R"({"task": "level1/19", "candidate": "good"})" + "\n", from);
  ASSERT_EQ(got.refused.size(), rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(got.refused[i].source, "s.jsonl:" + std::to_string(i + 1));
    EXPECT_THAT(got.refused[i].reason, HasSubstr(rows[i].second)) << rows[i].first;
  }
  ASSERT_EQ(got.samples.size(), 1u);
  EXPECT_EQ(got.samples[0].candidate, "good");
}

TEST(BenchSamples, OtherLevelsAndOtherReferencesAreCounted) {
  const Suite from = suite("kernelbench");
  const BenchSamples got =
      read(R"({"task": "level4/3", "candidate": "x"})"
           "\n"
           R"({"task": "level1/19", "candidate": "x", "reference": "class Model: pass  # 19_ReLU"})"
           "\n"
           R"({"task": "level1/19", "candidate": "x", "reference": "an older one"})",
           from);
  EXPECT_EQ(got.other_levels, 1u);
  EXPECT_EQ(got.other_references, 1u);
  EXPECT_EQ(got.samples.size(), 2u);
  EXPECT_TRUE(got.refused.empty());
}

TEST(BenchSamples, AFolderOfKernelBench) {
  const Suite from = suite("kernelbench");
  auto dir = *base::TempDir::create("bench_samples");
  for (const char* name : {"level_1_problem_19_sample_10_kernel.py", "level_1_problem_19_sample_2_kernel.py",
                           "level_2_problem_1_sample_0_kernel.py", "level_4_problem_3_sample_0_kernel.py",
                           "level_1_problem_77_sample_0_kernel.py", "level_1_problem_19_kernel.py",
                           "level_1_problem_19_sample_02_kernel.py", "eval_results.json",
                           "generation_config.yaml", "level_1_problem_19_sample_0_prompt.txt"})
    ASSERT_TRUE(base::write_file(dir.file(name), name));
  ASSERT_TRUE(base::make_dirs(dir.file("level_1_problem_23_sample_0_kernel.py")));
  auto got = read_samples(dir.path(), from);
  ASSERT_TRUE(got);
  std::string seen;
  for (const BenchSample& sample : got->samples)
    seen += sample.task->id + " " + std::to_string(sample.index) + "\n";
  EXPECT_EQ(seen, "level1/19 2\nlevel1/19 10\nlevel2/1 0\n");
  EXPECT_EQ(got->samples[1].candidate, "level_1_problem_19_sample_10_kernel.py");
  EXPECT_EQ(got->samples[1].candidate_name, "level_1_problem_19_sample_10_kernel.py");
  EXPECT_EQ(got->other_levels, 1u);
  // Problem 77, the two names that are not KernelBench's or repeat one, and the folder.
  std::string refused;
  for (const auto& sample : got->refused) refused += sample.source + ": " + sample.reason + "\n";
  EXPECT_EQ(got->refused.size(), 4u) << refused;
  EXPECT_THAT(refused, HasSubstr("no task 'level1/77'"));
  EXPECT_THAT(refused, HasSubstr("level_1_problem_19_kernel.py: is not called"));
  EXPECT_THAT(refused, HasSubstr("the same sample as"));
}

TEST(BenchSamples, FoldersAndFilesThatAreNone) {
  const Suite from = suite();
  auto dir = *base::TempDir::create("bench_samples");
  ASSERT_TRUE(base::make_dirs(dir.file("run")));
  ASSERT_TRUE(base::write_file(dir.file("run/level_1_problem_19_sample_0_kernel.py"), "x"));
  auto runs = read_samples(dir.path(), from);  // the folder of runs, not of one
  ASSERT_FALSE(runs);
  EXPECT_THAT(runs.error().message, HasSubstr("give the folder of one run"));
  EXPECT_FALSE(read_samples(dir.file("none.jsonl"), from));
}

TEST(BenchRow, IsTheSampleAndNothingOfWhereItCameFrom) {
  const Suite from = suite();
  const std::string text = R"({"task": "level1/19", "samples": ["same", "same"]})";
  const BenchSamples one = read(text, from), two = read("\n" + text, from);
  EXPECT_EQ(batch_row(one.samples[0]), batch_row(two.samples[0]));
  EXPECT_NE(batch_row(one.samples[0]), batch_row(one.samples[1]));  // equal answers are two samples
  const json row = json::parse(batch_row(one.samples[1]));
  EXPECT_EQ(row["task_id"], "level1/19");
  EXPECT_EQ(row["level"], 1);
  EXPECT_EQ(row["sample"], 1);
  EXPECT_EQ(row["reference"], "class Model: pass  # 19_ReLU");
  EXPECT_EQ(row["candidate"], "same");
}

}  // namespace
}  // namespace musacoder::cli
