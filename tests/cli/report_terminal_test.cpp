#include "cli/report_terminal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "verdict_samples.h"

namespace musacoder::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const base::Terminal kPlain(false, 100), kColour(true, 100);

TEST(VerdictReport, ShowsLevelsCauseEvidenceAndNextStep) {
  const std::string text = verdict_report(judge::samples::verdict_of("runtime_error:illegal_access"), kPlain,
                                          {{"candidate.py", judge::samples::candidate_source()}});
  EXPECT_THAT(text, HasSubstr("✗ Illegal memory access  runtime_error:illegal_access   level1/19"));
  EXPECT_THAT(text, HasSubstr("✓ L0 build"));
  EXPECT_THAT(text, HasSubstr("✗ L1 run"));
  EXPECT_THAT(text, HasSubstr("block (15, 0, 0), thread (192, 0, 0)"));
  EXPECT_THAT(text, HasSubstr("y[i] = x[i] > 0 ? x[i] : 0;"));
  EXPECT_THAT(text, HasSubstr("Next step"));
  EXPECT_THAT(text, HasSubstr("reward"));
}

TEST(VerdictReport, NamesScaledSizesAndTimes) {
  const std::string text = verdict_report(judge::samples::verdict_of("ok"), kPlain);
  EXPECT_THAT(text, HasSubstr("batch_size 16 → 4, dim 16384 → 1024"));
  EXPECT_THAT(text, HasSubstr("no time was measured"));
  EXPECT_THAT(text, HasSubstr("build"));
}

TEST(VerdictReport, ColoursOnlyWhereWanted) {
  const auto verdict = judge::samples::verdict_of("ok");
  EXPECT_EQ(verdict_report(verdict, kPlain).find('\x1b'), std::string::npos);
  EXPECT_NE(verdict_report(verdict, kColour).find('\x1b'), std::string::npos);
}

TEST(VerdictReport, HostileTextCannotReachTheTerminal) {
  judge::Verdict v = judge::samples::verdict_of("runtime_error:exception");
  v.task = v.cause = v.exception_message = v.levels[1].detail = "\x1b]0;owned\x07\x1b[2J";
  v.notes = {"\x1b[31m"};
  for (const std::string& text : {verdict_report(v, kPlain), verdict_table({{"", &v}}, kPlain)}) {
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
    EXPECT_EQ(text.find('\x07'), std::string::npos);
  }
}

TEST(VerdictTable, OneLineAVerdictAndASummary) {
  const auto all = judge::samples::every_status();
  std::vector<TableRow> rows;
  for (const auto& verdict : all) rows.push_back({"", &verdict});
  const std::string text = verdict_table(rows, kPlain);
  for (const auto& verdict : all) EXPECT_THAT(text, HasSubstr(verdict.status.substr(0, 30)));
  EXPECT_THAT(text, HasSubstr("1 verified"));
}

TEST(ClassSummary, FixedOrder) {
  EXPECT_EQ(class_summary({{"infra:disk", 1}, {"compile_error:nvcc", 2}, {"ok", 3}, {"compile_error:link", 1}}, kPlain),
            "3 verified, 3 compile_error, 1 infra");
}

TEST(VerdictReport, RandomVerdictsNeverFail) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const auto verdict = judge::samples::random_verdict(seed);
    EXPECT_FALSE(verdict_report(verdict, kColour).empty());
    EXPECT_FALSE(verdict_table({{"name", &verdict}}, kColour).empty());
  }
}

}  // namespace
}  // namespace musacoder::cli
