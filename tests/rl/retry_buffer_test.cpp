// Buffered Dynamic Retry: the trigger, what is kept, order, eviction, limits, and the way through a checkpoint.
#include "rl/retry_buffer.h"

#include <gtest/gtest.h>

#include <cmath>

namespace musacoder::rl {
namespace {

TEST(RetryBuffer, TriggerAndTheCandidateThatGotFurthest) {
  const Attempt extract{-1, "compile_error:extract", "a", "fa"}, compile{-1, "compile_error:nvcc", "b", "fb"}, fault{-1, "runtime_error:exception", "c", "fc"},
      values{-1, "correctness_error:values", "d", "fd"}, null{NAN, "infra:device", "e", "fe"}, partly{-0.25, "correctness_error:values", "f", "ff"};
  const auto all = retry_of("p", {extract, compile, fault, values, null});
  ASSERT_TRUE(all);
  EXPECT_EQ(all->candidate, "d");
  EXPECT_EQ(all->feedback, "fd");
  EXPECT_EQ(retry_of("p", {extract, fault, compile})->candidate, "c");
  EXPECT_EQ(retry_of("p", {compile, Attempt{-1, "compile_error:link", "g", "fg"}})->candidate, "b") << "the first of equals";
  EXPECT_FALSE(retry_of("p", {values, partly})) << "eq. 13 asks for -1 everywhere";
  EXPECT_FALSE(retry_of("p", {null, null})) << "nobody failed";
  EXPECT_FALSE(retry_of("p", {}));
}

TEST(RetryBuffer, FirstInFirstOutWithinItsCapacity) {
  RetryBuffer b({.capacity = 2});
  for (const char* id : {"a", "b", "c"}) EXPECT_TRUE(b.push({id, "x", "y", "z"}));
  EXPECT_EQ(b.size(), 2u);
  EXPECT_EQ(b.counts().evicted, 1);
  EXPECT_TRUE(b.push({"b", "newer", "y", "z"}));
  EXPECT_EQ(b.size(), 2u);
  const auto first = b.draw();
  EXPECT_EQ(first->prompt_id, "b");
  EXPECT_EQ(first->candidate, "newer");
  EXPECT_EQ(first->retries, 1);
  EXPECT_EQ(b.draw()->prompt_id, "c");
  EXPECT_FALSE(b.draw()) << "removed on draw";
}

TEST(RetryBuffer, ComesBackOnlySoOften) {
  RetryBuffer b({.most_retries = 2});
  EXPECT_TRUE(b.push({"a", "1", "", ""}));
  for (const bool again : {true, false}) {
    Retry drawn = *b.draw();
    drawn.candidate += "+";
    EXPECT_EQ(b.push(drawn), again);
  }
  EXPECT_EQ(b.counts().refused, 1);
}

TEST(RetryBuffer, LateStartAndProbability) {
  RetryBuffer b({.probability = 0.25, .start_step = 10});
  EXPECT_FALSE(b.wants_retry(20, 0)) << "empty";
  b.push({"a", "", "", ""});
  EXPECT_FALSE(b.wants_retry(9, 0));
  EXPECT_TRUE(b.wants_retry(10, 0.2499));
  EXPECT_FALSE(b.wants_retry(10, 0.25));
}

TEST(RetryBuffer, ThroughACheckpoint) {
  RetryBuffer b({}), c({});
  b.push({"a", "int x;\n\"q\"", "line\n2", "compile_error:nvcc", 1, 42});
  b.push({"b", "ü", "", "", 0, 43});
  ASSERT_TRUE(c.restore(b.to_json()));
  EXPECT_EQ(c.to_json(), b.to_json());
  EXPECT_EQ(c.draw()->candidate, "int x;\n\"q\"");
  for (const char* bad : {"", "[]", "{}", R"({"version":2,"entries":[],"counts":{}})", R"({"version":1,"entries":[{}],"counts":{}})"}) EXPECT_FALSE(c.restore(bad)) << bad;
  EXPECT_EQ(c.size(), 1u) << "a refused text changes nothing";
}

}  // namespace
}  // namespace musacoder::rl
