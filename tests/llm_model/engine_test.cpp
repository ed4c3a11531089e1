// The engine's bookkeeping: room in the cache, joining and leaving, cancelling.
#include "llm/generate/engine.h"

#include <gtest/gtest.h>

#include <map>

#include "llm_model/tiny_model.h"

namespace musacoder::llm {
namespace {

class EngineTest : public TinyModel {
 protected:
  std::unique_ptr<Engine> engine(const EngineOptions& options) {
    auto opened = Engine::open(folder_ + "/model", options);
    EXPECT_TRUE(opened) << opened.error().message;
    return std::move(*opened);
  }
  // All tokens of each request's samples.
  static std::map<std::pair<std::uint64_t, int>, std::vector<TokenId>> finish(Engine& engine) {
    std::map<std::pair<std::uint64_t, int>, std::vector<TokenId>> out;
    for (int steps = 0; !engine.idle(); ++steps) {
      const auto events = engine.step();
      EXPECT_TRUE(events);
      if (!events || steps > 1000) {
        ADD_FAILURE() << "it does not come to an end";
        break;
      }
      for (const TokenEvent& event : *events) out[{event.request, event.sample}].push_back(event.token);
    }
    return out;
  }
};

TEST_F(EngineTest, AllRoomComesBack) {
  const auto run = engine({.cache_tokens = 320});
  for (int i = 0; i < 7; ++i)
    ASSERT_TRUE(run->add({.prompt = {1, 2, 3}, .samples = 1 + i % 3, .sampling = {.max_tokens = 10 + i}}));
  const auto answers = finish(*run);
  EXPECT_EQ(answers.size(), 13u);  // 1 + 2 + 3 + 1 + 2 + 3 + 1
  EXPECT_EQ(run->counts().free_tokens, 320);
  EXPECT_EQ(run->counts().prompt_tokens, 21);  // of samples that share a prompt only one pass
}

TEST_F(EngineTest, JoiningWaitsForRoomInOrder) {
  const auto run = engine({.max_running = 2});
  const auto first = run->add({.prompt = {1}, .samples = 2, .sampling = {.max_tokens = 3}});
  const auto second = run->add({.prompt = {2}, .sampling = {.max_tokens = 3}});
  ASSERT_TRUE(first && second);
  for (int step = 0; step < 3; ++step) {
    const auto events = run->step();
    ASSERT_EQ(events->size(), 2u);
    for (const TokenEvent& event : *events) EXPECT_EQ(event.request, *first);
  }
  EXPECT_EQ(run->step()->at(0).request, *second);
}

TEST_F(EngineTest, CancellingLeavesTheOthersAsTheyWere) {
  const GenerateRequest request{.prompt = {4, 5}, .samples = 2, .sampling = {.max_tokens = 30, .seed = 9}};
  const auto alone = engine({});
  const auto id = *alone->add(request);
  const auto want = finish(*alone);
  const auto run = engine({});
  const auto before = *run->add({.prompt = {7, 8, 9}, .sampling = {.max_tokens = 50}});
  const auto kept = *run->add(request);
  const auto after = *run->add({.prompt = {1}, .samples = 3, .sampling = {.max_tokens = 50}});
  std::map<int, std::vector<TokenId>> got;
  for (int step = 0; step < 40 && !run->idle(); ++step) {
    if (step == 4) run->cancel(before);
    if (step == 5) run->cancel(after);
    const auto events = run->step();
    for (const TokenEvent& event : *events) {
      if (event.request == kept)
        got[event.sample].push_back(event.token);
      else
        EXPECT_LT(step, 5);
    }
  }
  for (const int sample : {0, 1}) EXPECT_EQ(got[sample], want.at({id, sample}));
  EXPECT_TRUE(run->idle());
  EXPECT_EQ(run->counts().free_tokens, 16384);
  run->cancel(12345);
}

TEST_F(EngineTest, WhatNeverFitsIsRefusedAtOnce) {
  const auto run = engine({.cache_tokens = 64, .max_running = 4});
  EXPECT_EQ(run->add({.prompt = {1}, .sampling = {.max_tokens = 64}}).error().code, Code::kResourceExhausted);
  EXPECT_TRUE(run->add({.prompt = {1}, .sampling = {.max_tokens = 63}}));
  EXPECT_EQ(run->add({.prompt = {1}, .samples = 5}).error().code, Code::kResourceExhausted);
  EXPECT_EQ(run->add({.prompt = {}}).error().code, Code::kInvalidArgument);
  EXPECT_FALSE(Engine::open(folder_ + "/model", {.type = "int8"}));
  EXPECT_FALSE(Engine::open(folder_ + "/none", {}));
}

}  // namespace
}  // namespace musacoder::llm
