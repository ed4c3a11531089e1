// Real model answers: each holds a candidate, and what is found in it is what a reader finds.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/clock.h"
#include "candidate/candidate.h"
#include "candidate/support.h"

namespace musacoder::candidate {
namespace {

std::string data_file(const std::string& name) {
  const char* folder = std::getenv("MUSACODER_DATA");
  return (folder ? std::string(folder) : std::string(MC_SOURCE_DIR) + "/../shared/data") + "/" + name;
}

class RealCandidates : public testing::TestWithParam<std::pair<const char*, std::map<std::string, int>>> {};

TEST_P(RealCandidates, AreExtractedAsFilesAndFromMarkdown) {
  const auto& [name, expected] = GetParam();
  std::ifstream file(data_file(name));
  if (!file) GTEST_SKIP() << data_file(name) << " is not here; set MUSACODER_DATA";
  Extractor extractor(test_options());
  std::map<std::string, int> counts;
  double seconds = 0, slowest = 0;
  for (std::string line; std::getline(file, line);) {
    const auto row = nlohmann::json::parse(line);
    const std::string code = row["candidate"];
    const base::Stopwatch watch;
    auto candidate = extractor.extract(code);
    seconds += watch.seconds();
    slowest = std::max(slowest, watch.seconds());
    ASSERT_TRUE(candidate) << candidate.error().message;
    ++counts[candidate->status];
    if (candidate->status != "ok") {
      std::printf("  %s: %s (line %d): %s\n", row["id"].dump().c_str(), candidate->status.c_str(), candidate->line,
                  candidate->message.c_str());
      EXPECT_FALSE(candidate->message.empty());
      continue;
    }
    EXPECT_EQ(candidate->kind, Kind::kPython);
    // Every source line that came from an exact literal is found again.
    for (const LiteralFact& literal : candidate->facts.literals) {
      if (literal.exact && literal.text.size() > 1) {
        EXPECT_TRUE(python_line_of(candidate->facts, "\n" + literal.text, 2)) << row["id"];
      }
    }
    auto again = extractor.extract("<think>\nI could write\n```python\nclass ModelNew: pass\n```\n</think>\nHere it is.\n```python\n" +
                                   code + "\n```\nIt is fast.<|im_end|>");
    ASSERT_TRUE(again);
    EXPECT_EQ(again->status, "ok") << row["id"] << again->message;
    EXPECT_EQ(again->kind, Kind::kPython);
  }
  std::printf("  %.2f ms an answer on average, %.1f ms the slowest\n",
              1e3 * seconds / std::max(1, [&] { int n = 0; for (auto& [s, c] : counts) n += c; return n; }()), 1e3 * slowest);
  EXPECT_EQ(counts, expected);
}

INSTANTIATE_TEST_SUITE_P(
    Data, RealCandidates,
    testing::Values(std::pair{"real_candidates.jsonl", std::map<std::string, int>{{"ok", 488}, {"compile_error:syntax", 5}}},
                    std::pair{"cuda_l1.jsonl", std::map<std::string, int>{{"ok", 90}, {"compile_error:syntax", 1}}}));

}  // namespace
}  // namespace musacoder::candidate
