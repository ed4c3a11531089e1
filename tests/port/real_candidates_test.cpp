// Answers of real models go to MUSA and back byte for byte, and no CUDA name that they use is unknown to the
// tables.
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include <gmock/gmock.h>

#include "support.h"

namespace musacoder::port {
namespace {

std::vector<std::string> candidates() {
  const char* given = std::getenv("MUSACODER_DATA");
  const std::string data = given ? given : std::string(MC_SOURCE_DIR) + "/../shared/data";
  std::vector<std::string> all;
  for (const char* file : {"/real_candidates.jsonl", "/cuda_l1.jsonl"}) {
    std::ifstream in(data + file);
    for (std::string line; std::getline(in, line);) all.push_back(nlohmann::json::parse(line)["candidate"]);
  }
  return all;
}

TEST(RealCandidates, ComeBackIdentical) {
  const auto all = candidates();
  if (all.empty())
    GTEST_SKIP() << "no real candidates; set MUSACODER_DATA to the folder with real_candidates.jsonl";
  std::size_t renamed = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Language language = language_of_text(all[i]);
    const Ported there = ported(all[i], language);
    renamed += !there.renames.empty();
    EXPECT_TRUE(there.reversible()) << "candidate " << i;
    EXPECT_EQ(ported(there.text, language, Dialect::kCuda).text, all[i]) << "candidate " << i;
    EXPECT_EQ(ported(there.text, language).text, there.text) << "candidate " << i << ", twice";
    EXPECT_EQ(std::count(there.text.begin(), there.text.end(), '\n'),
              std::count(all[i].begin(), all[i].end(), '\n'));
  }
  EXPECT_EQ(renamed, all.size()) << "every one of them builds an extension or includes a CUDA header";
}

TEST(RealCandidates, UseNoNameThatTheTablesLack) {
  const auto all = candidates();
  if (all.empty())
    GTEST_SKIP() << "no real candidates; set MUSACODER_DATA to the folder with real_candidates.jsonl";
  std::vector<std::string> unknown;
  for (const std::string& candidate : all)
    for (const Attention& item : ported(candidate, language_of_text(candidate)).attention)
      if (item.kind == "unknown_name") unknown.push_back(item.what);
  EXPECT_THAT(unknown, testing::IsEmpty());
}

}  // namespace
}  // namespace musacoder::port
