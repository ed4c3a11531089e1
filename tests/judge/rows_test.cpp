#include "judge/rows.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "verdict_samples.h"

namespace musacoder::judge {
namespace {

std::string line_of(const std::string& status, nlohmann::json extra = nlohmann::json::object()) {
  nlohmann::json row = to_json(samples::verdict_of(status));
  row.update(extra);
  return row.dump();
}

TEST(Rows, KeepsUnknownKeysAndFindsTheLevel) {
  auto row = row_from_text(line_of("ok", {{"run", "model_a"}, {"candidate", "code"}}));
  ASSERT_TRUE(row.has_value());
  EXPECT_EQ(row_text(*row, "run"), "model_a");
  EXPECT_EQ(row_text(*row, "candidate"), "code");
  EXPECT_EQ(row_text(*row, "missing"), "");
  EXPECT_EQ(row->level, "1");  // of "level1/19"
  EXPECT_EQ(row_from_text(line_of("ok", {{"level", 3}}))->level, "3");
  EXPECT_EQ(row_from_text(line_of("ok", {{"level", "hard"}}))->level, "hard");
  EXPECT_EQ(row_from_text(line_of("ok", {{"task", "relu"}}))->level, "");
  EXPECT_EQ(row_from_text(line_of("ok", {{"task", "levels/7"}}))->level, "");
}

TEST(Rows, SkipsWhatIsNoVerdictAndATornLastLine) {
  auto dir = base::TempDir::create("rows");
  ASSERT_TRUE(dir.has_value());
  const std::string path = dir->file("v.jsonl");
  ASSERT_TRUE(base::write_file(path, line_of("ok") + "\nnot json\n\n[1]\n" + line_of("infra:disk", {{"row_key", "k"}}) + "\n" +
                                         line_of("ok", {{"row_key", "k"}}) + "\n" + line_of("ok").substr(0, 200)));
  std::vector<std::string> statuses;
  auto read = read_rows(path, [&](VerdictRow row) { statuses.push_back(row.verdict.status); });
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(statuses, (std::vector<std::string>{"ok", "infra:disk"}));
  EXPECT_EQ(read->malformed, 2u);
  EXPECT_EQ(read->first_error.substr(0, 7), "line 2:");
  EXPECT_EQ(read->duplicates, 1u);
  EXPECT_TRUE(read->torn_last_line);
}

TEST(Rows, WholeLastLineWithoutNewlineCounts) {
  auto dir = base::TempDir::create("rows");
  const std::string path = dir->file("v.jsonl");
  ASSERT_TRUE(base::write_file(path, line_of("ok")));
  auto read = read_rows(path, [](VerdictRow) {});
  EXPECT_EQ(read->rows, 1u);
  EXPECT_FALSE(read->torn_last_line);
}

TEST(Rows, PolicyOfARowIsOneOfTwoOrLeftToTheCommandLine) {
  using nlohmann::json;
  EXPECT_EQ(*row_policy({{"policy", "strict"}}), "strict");
  EXPECT_EQ(*row_policy({{"policy", "report"}}), "report");
  EXPECT_EQ(*row_policy({{"candidate", "code"}}), "");
  EXPECT_EQ(*row_policy({{"policy", nullptr}}), "");
  for (const json& value : {json("Strict"), json(""), json(true), json({"report"}), json("\xff")}) {
    auto policy = row_policy({{"policy", value}});
    ASSERT_FALSE(policy.has_value());
    EXPECT_EQ(policy.error().code, Code::kInvalidArgument);
    EXPECT_NE(policy.error().message.find("strict"), std::string::npos);
  }
}

TEST(Rows, MissingFileAndFolderAreErrors) {
  EXPECT_FALSE(read_rows("/nonexistent/v.jsonl", [](VerdictRow) {}).has_value());
  EXPECT_FALSE(read_rows("/tmp", [](VerdictRow) {}).has_value());
}

}  // namespace
}  // namespace musacoder::judge
