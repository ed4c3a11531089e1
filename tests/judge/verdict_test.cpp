#include "judge/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json_lines.h"
#include "verdict_samples.h"

namespace musacoder::judge {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

RC_GTEST_PROP(VerdictJson, SurvivesARoundTripThroughText, (std::uint64_t seed)) {
  const json before = to_json(samples::random_verdict(seed));
  auto parsed = base::parse_json(before.dump());
  RC_ASSERT(parsed.has_value());
  auto verdict = verdict_from_json(*parsed);
  RC_ASSERT(verdict.has_value());
  RC_ASSERT(to_json(*verdict) == before);
}

// No part of a hostile or damaged record may do more than give an error.
RC_GTEST_PROP(VerdictJson, WrongTypesGiveErrorsNotCrashes, (std::uint64_t seed)) {
  json record = to_json(samples::random_verdict(seed));
  auto it = record.begin();
  std::advance(it, static_cast<long>(seed % record.size()));
  const json wrong[] = {nullptr, 7, -1, 1e300, "text", json::array({json::array()}), json::object({{"a", 1}}), true};
  for (const json& value : wrong) {
    const json kept = *it;
    *it = value;
    (void)verdict_from_json(record);
    *it = kept;
  }
}

TEST(VerdictJson, ReadsEveryMember) {
  const Verdict v = *verdict_from_json(to_json(samples::verdict_of("runtime_error:illegal_access")));
  EXPECT_EQ(v.status, "runtime_error:illegal_access");
  ASSERT_TRUE(v.fault.has_value());
  EXPECT_EQ(v.fault->kind, vgpu::FaultKind::kOutOfBounds);
  EXPECT_EQ(v.fault->address, 0x7f0000010000u);
  EXPECT_EQ(v.fault->offset_bytes, 16128);
  EXPECT_EQ(v.ledger.launches.at(0).block.x, 256u);
  EXPECT_EQ(v.levels.at(1).state, LevelState::kFailed);
  EXPECT_EQ(v.builds.at(0).headers, "slim");
}

TEST(VerdictJson, NumbersThatJsonLacks) {
  Verdict v = samples::verdict_of("correctness_error:values");
  v.trials[0].worst->got = std::nan("");
  v.trials[0].worst->ratio = HUGE_VAL;
  v.trials[0].worst->expected = -HUGE_VAL;
  const json record = to_json(v);
  EXPECT_EQ(record["trials"][0]["worst"]["got"], "nan");
  EXPECT_EQ(record["trials"][0]["worst"]["ratio"], "inf");
  const Verdict back = *verdict_from_json(json::parse(record.dump()));
  EXPECT_TRUE(std::isnan(back.trials[0].worst->got));
  EXPECT_EQ(back.trials[0].worst->expected, -HUGE_VAL);
}

TEST(VerdictJson, KeepsReadingRecordsWithUnknownAndMissingKeys) {
  auto verdict = verdict_from_json({{"version", 1}, {"status", "ok"}, {"from_the_future", {1, 2, 3}}});
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->status, "ok");
  EXPECT_FALSE(verdict->reward.has_value());
}

TEST(VerdictJson, NamesTheFieldThatIsWrong) {
  json record = to_json(samples::verdict_of("correctness_error:values"));
  record["trials"][2]["worst"]["ratio"] = json::array();
  EXPECT_THAT(verdict_from_json(record).error().message, HasSubstr("trials[2].worst.ratio"));
  EXPECT_THAT(verdict_from_json(json::array()).error().message, HasSubstr("(whole)"));
  EXPECT_THAT(verdict_from_json({{"version", 1}}).error().message, HasSubstr("status"));
  auto other = verdict_from_json({{"version", 99}, {"status", "ok"}});
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().code, Code::kUnsupported);
}

TEST(Status, ClassesAndExitCodes) {
  EXPECT_EQ(status_class("compile_error:nvcc"), "compile_error");
  EXPECT_EQ(status_class("ok"), "ok");
  EXPECT_EQ(exit_code("ok"), 0);
  for (const char* status : {"compile_error:nvcc", "runtime_error:race", "correctness_error:values", "cheating:replay"}) {
    EXPECT_EQ(exit_code(status), 1) << status;
    EXPECT_TRUE(is_candidate_fault(status)) << status;
    EXPECT_FALSE(is_null_reward(status)) << status;
  }
  for (const char* status : {"infra:disk", "unsupported:ptx:wgmma", "inconclusive:budget"}) EXPECT_EQ(exit_code(status), 3) << status;
  EXPECT_EQ(exit_code("invalid_task:trivial"), 4);
  EXPECT_TRUE(is_null_reward("invalid_task:trivial"));
  EXPECT_EQ(exit_code("something else"), 3);
}

}  // namespace
}  // namespace musacoder::judge
