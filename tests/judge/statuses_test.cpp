#include "judge/statuses.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "judge/verdict.h"

namespace musacoder::judge {
namespace {

TEST(Statuses, EveryRowIsWholeAndUnique) {
  std::set<std::string_view> seen;
  for (const StatusInfo& row : status_table()) {
    EXPECT_TRUE(seen.insert(row.status).second) << row.status;
    EXPECT_FALSE(row.title.empty() || row.meaning.empty() || row.look_at.empty()) << row.status;
    EXPECT_EQ(row.meaning.back(), '.') << row.status;
    EXPECT_EQ(row.look_at.back(), '.') << row.status;
    const std::string status(row.status);
    EXPECT_TRUE(status == "ok" || is_candidate_fault(status) || is_null_reward(status)) << row.status;
  }
}

TEST(Statuses, ExactRowBeforePatternBeforeClass) {
  EXPECT_EQ(status_info("infra:disk").status, "infra:disk");
  EXPECT_EQ(status_info("infra:somewhere_else").status, "infra:*");
  EXPECT_EQ(status_info("unsupported:ptx:wgmma.mma_async").status, "unsupported:ptx:*");
  EXPECT_EQ(status_info("unsupported:something").status, "unsupported:*");
  EXPECT_FALSE(is_known_status("compile_error:nonsense"));
  EXPECT_FALSE(is_known_status("invalid_row"));
  EXPECT_FALSE(is_known_status(""));
}

TEST(Statuses, RewardRules) {
  EXPECT_EQ(reward_rule("ok"), "1 + speed term");
  EXPECT_EQ(reward_rule("cheating:replay"), "−1");
  EXPECT_EQ(reward_rule("correctness_error:values"), "−0.5 + 0.5 q; −1 when q = 0");
  EXPECT_EQ(reward_rule("infra:disk"), "null");
}

TEST(Statuses, DocumentationHasTheTable) {
  std::ifstream in(std::string(MC_SOURCE_DIR) + "/docs/verdicts.md");
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_NE(text.str().find(status_table_markdown()), std::string::npos)
      << "docs/verdicts.md differs from the table; put this there:\n" << status_table_markdown();
}

}  // namespace
}  // namespace musacoder::judge
