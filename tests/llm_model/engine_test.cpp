// The engine's bookkeeping: room in the cache, joining and leaving, cancelling.
#include "llm/generate/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "llm/model/weights.h"
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

// Tokens, log-probabilities and versions of one sample.
struct Trace {
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;
  std::vector<std::int64_t> versions;
};

class SwapTest : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    write_model("next", 2);
  }
  Status swap(Engine& engine, const std::string& name, SwapCache cache,
              std::optional<std::int64_t> version = {}) {
    const auto weights = Engine::read_weights(folder_ + "/" + name, {});
    if (!weights) return tl::unexpected(weights.error());
    return engine.swap_weights({.weights = &*weights, .cache = cache, .version = version});
  }
  // Runs to the end; `swap_at`: after so many steps the weights of "next" come in.
  std::map<std::pair<std::uint64_t, int>, Trace> run(Engine& engine, int swap_at, SwapCache cache) {
    std::map<std::pair<std::uint64_t, int>, Trace> out;
    for (int step = 0; !engine.idle() && step < 1000; ++step) {
      if (step == swap_at) {
        EXPECT_TRUE(swap(engine, "next", cache));
      }
      const auto events = engine.step();
      EXPECT_TRUE(events);
      for (const TokenEvent& event : *events) {
        Trace& to = out[{event.request, event.sample}];
        to.tokens.push_back(event.token);
        to.logprobs.push_back(event.logprob);
        to.versions.push_back(event.version);
      }
    }
    EXPECT_TRUE(engine.idle());
    return out;
  }
  // What the weights of `name` alone give after these tokens, greedily.
  Trace alone(const std::string& name, const std::vector<TokenId>& prompt, int tokens) {
    auto engine = Engine::open(folder_ + "/" + name, {});
    EXPECT_TRUE((*engine)->add({.prompt = prompt, .sampling = {.max_tokens = tokens, .temperature = 0}}));
    return run(**engine, -1, SwapCache::kKeep).begin()->second;
  }
};

TEST_F(SwapTest, TokensAfterItAreWhatTheNewWeightsGiveOnARecomputedCache) {
  const std::vector<TokenId> prompt = {1, 7, 3, 3, 9, 2, 5, 8, 1, 1, 4, 6, 2, 2, 9, 3, 5, 7};
  for (const int step_tokens : {256, 5})  // all at once, and in pieces
    for (const int at : {1, 4, 9}) {
      const auto engine = this->engine({.max_running = 4, .step_tokens = step_tokens});
      const auto id =
          *engine->add({.prompt = prompt, .samples = 2, .sampling = {.max_tokens = 20, .temperature = 0}});
      const auto other = *engine->add({.prompt = {4}, .sampling = {.max_tokens = 30, .temperature = 0}});
      const auto got = run(*engine, at, SwapCache::kRecompute);
      ASSERT_EQ(got.size(), 3u);
      for (const auto& [key, trace] : got) {
        EXPECT_TRUE(std::is_sorted(trace.versions.begin(), trace.versions.end()));
        const auto old =
            static_cast<std::size_t>(std::count(trace.versions.begin(), trace.versions.end(), 0));
        std::vector<TokenId> before = key.first == id ? prompt : std::vector<TokenId>{4};
        const auto first = old ? alone("model", before, static_cast<int>(old)) : Trace{};
        EXPECT_EQ(first.tokens,
                  std::vector<TokenId>(trace.tokens.begin(),
                                       trace.tokens.begin() + static_cast<std::ptrdiff_t>(old)));
        before.insert(before.end(), first.tokens.begin(), first.tokens.end());
        const Trace want = alone("next", before, static_cast<int>(trace.tokens.size() - old));
        EXPECT_EQ(want.tokens, std::vector<TokenId>(trace.tokens.begin() + static_cast<std::ptrdiff_t>(old),
                                                    trace.tokens.end()));
        EXPECT_EQ(want.logprobs, std::vector<float>(trace.logprobs.begin() + static_cast<std::ptrdiff_t>(old),
                                                    trace.logprobs.end()));  // to the bit
        EXPECT_EQ(trace.tokens.size(), key.first == other ? 30u : 20u);
      }
      EXPECT_EQ(engine->version(), 1);
      EXPECT_EQ(engine->counts().free_tokens, 16384);
    }
}

TEST_F(SwapTest, AKeptCacheIsOfTheOldWeights) {
  const auto engine = this->engine({});
  ASSERT_TRUE(engine->add({.prompt = {1, 7, 3}, .sampling = {.max_tokens = 12, .temperature = 0}}));
  const Trace kept = run(*engine, 5, SwapCache::kKeep).begin()->second;
  EXPECT_EQ(kept.versions, (std::vector<std::int64_t>{0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(engine->counts().prompt_tokens, 3);  // nothing was read again
  std::vector<TokenId> before = {1, 7, 3};
  before.insert(before.end(), kept.tokens.begin(), kept.tokens.begin() + 5);
  const Trace recomputed = alone("next", before, 7);
  EXPECT_NE(std::vector<float>(kept.logprobs.begin() + 5, kept.logprobs.end()), recomputed.logprobs);
}

TEST_F(SwapTest, VersionsAreGivenOrCountedOn) {
  const auto engine = this->engine({});
  EXPECT_EQ(engine->version(), 0);
  ASSERT_TRUE(swap(*engine, "next", SwapCache::kRecompute, 40));
  ASSERT_TRUE(swap(*engine, "model", SwapCache::kRecompute));
  ASSERT_TRUE(engine->add({.prompt = {1}, .sampling = {.max_tokens = 3, .temperature = 0}}));
  const Trace got = run(*engine, -1, SwapCache::kKeep).begin()->second;
  EXPECT_EQ(got.versions, (std::vector<std::int64_t>{41, 41, 41}));
  EXPECT_EQ(got.tokens, alone("model", {1}, 3).tokens);
}

TEST_F(SwapTest, OtherSizesAreRefusedAndNothingChanges) {
  write_model("deep", 3, 3);
  const auto engine = this->engine({});
  ASSERT_TRUE(engine->add({.prompt = {1}, .sampling = {.max_tokens = 4, .temperature = 0}}));
  ASSERT_TRUE(engine->step());
  const Status refused = swap(*engine, "deep", SwapCache::kRecompute);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_EQ(engine->version(), 0);
  const auto wide = Engine::read_weights(folder_ + "/next", {.type = "bf16"});
  EXPECT_FALSE(engine->swap_weights({.weights = &*wide}));
  const Trace rest = run(*engine, -1, SwapCache::kKeep).begin()->second;
  const Trace want = alone("model", {1}, 4);
  EXPECT_EQ(rest.tokens, std::vector<TokenId>(want.tokens.begin() + 1, want.tokens.end()));
}

TEST_F(EngineTest, TopLogprobsAreTheLikeliestInOrder) {
  const auto run = engine({});
  ASSERT_TRUE(
      run->add({.prompt = {1, 2}, .sampling = {.max_tokens = 3, .temperature = 0}, .top_logprobs = 20}));
  while (!run->idle()) {
    const auto events = run->step();
    ASSERT_TRUE(events);
    for (const TokenEvent& event : *events) {
      ASSERT_EQ(event.top.size(), 11u);  // the whole vocabulary
      EXPECT_EQ(event.top[0].token, event.token);
      EXPECT_EQ(event.top[0].logprob, event.logprob);
      double sum = 0;
      for (std::size_t i = 0; i < event.top.size(); ++i) {
        sum += std::exp(event.top[i].logprob);
        if (i > 0) {
          EXPECT_LE(event.top[i].logprob, event.top[i - 1].logprob);
        }
      }
      EXPECT_NEAR(sum, 1, 1e-5);
    }
  }
  EXPECT_FALSE(run->add({.prompt = {1}, .top_logprobs = -1}));
  EXPECT_FALSE(run->add({.prompt = {1}, .sampling = {.logit_bias = {{11, 1.0f}}}}));
}

TEST_F(EngineTest, RoomIsWhatAddTakes) {
  const auto run = engine({.cache_tokens = 160, .max_running = 8});
  for (const std::int64_t prompt : {1, 15, 16, 17, 40})
    for (const int samples : {1, 2, 3}) {
      const auto room = static_cast<int>(run->limits().room(prompt, samples));
      const std::vector<TokenId> ids(static_cast<std::size_t>(prompt), 1);
      const auto taken = [&](int tokens) {
        return run->add({.prompt = ids, .samples = samples, .sampling = {.max_tokens = tokens}}).has_value();
      };
      if (room >= 1) {
        EXPECT_TRUE(taken(room)) << prompt << " " << samples;
      }
      if (room + prompt < 100) {
        EXPECT_FALSE(taken(std::max(1, room + 1))) << prompt << " " << samples;
      }
    }
}

}  // namespace
}  // namespace musacoder::llm
