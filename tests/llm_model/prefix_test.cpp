// Prefixes shared between requests: what is found, what is given up for room, and that answers stay the same.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "llm/checkpoint/checkpoint_writer.h"
#include "llm/checkpoint/families.h"
#include "llm/generate/engine.h"
#include "llm/generate/prefix_tree.h"
#include "llm/model/weights.h"

namespace musacoder::llm {
namespace {

// Tokens of pages, page i being sixteen times the i-th number.
std::vector<TokenId> tokens(const std::vector<TokenId>& pages, int more = 0) {
  std::vector<TokenId> out;
  for (const TokenId page : pages) out.insert(out.end(), kPage, page);
  out.insert(out.end(), static_cast<std::size_t>(more), 99);
  return out;
}

class PrefixTreeTest : public testing::Test {
 protected:
  static ModelConfig config() {
    ModelConfig out;
    out.layers = 2;
    out.kv_heads = 1;
    out.head_dim = 4;
    out.kinds = {LayerKind::kDelta, LayerKind::kAttention};
    out.delta = {1, 1, 2, 2, 2};
    return out;
  }
  // A sequence that was read to its end.
  PageTable read(const std::vector<TokenId>& all) {
    PageTable table;
    cache.extend(table, static_cast<std::int64_t>(all.size()));
    return table;
  }
  KvCache cache{config(), at::kFloat, 10 * kPage};
  DeltaStates states{config(), 6};
};

TEST_F(PrefixTreeTest, FindsFullPagesAndLeavesATokenToRead) {
  PrefixTree tree(cache, states, false, 0);
  PageTable table = read(tokens({1, 2, 3}, 5));
  tree.insert(tokens({1, 2, 3}, 5), table);
  EXPECT_EQ(tree.size(), 3);
  const auto pages = [&](const std::vector<TokenId>& of) { return tree.find(of).pages; };
  EXPECT_EQ(pages(tokens({1, 2, 3}, 1)),
            (std::vector<std::int32_t>{table.pages[0], table.pages[1], table.pages[2]}));
  EXPECT_EQ(pages(tokens({1, 2, 3})).size(), 2u);  // the last page's logits are not kept
  EXPECT_EQ(pages(tokens({1, 2, 4}, 1)).size(), 2u);
  EXPECT_EQ(pages(tokens({2, 1}, 1)).size(), 0u);
  EXPECT_EQ(pages(tokens({}, 3)).size(), 0u);
  EXPECT_EQ(cache.idle_pages(), 0);
  cache.release(table);
  EXPECT_EQ(cache.idle_pages(), 3);
  EXPECT_EQ(cache.free_pages(), 7);
}

TEST_F(PrefixTreeTest, TheSameReadTwiceKeepsOneCopy) {
  PrefixTree tree(cache, states, false, 0);
  PageTable one = read(tokens({1, 2})), two = read(tokens({1, 2, 3}));
  tree.insert(tokens({1, 2}), one);
  tree.insert(tokens({1, 2, 3}), two);
  EXPECT_EQ(tree.size(), 3);
  EXPECT_EQ(two.pages[0], one.pages[0]);
  EXPECT_EQ(two.pages[1], one.pages[1]);
  EXPECT_EQ(cache.free_pages(), 7);
  cache.release(one);
  EXPECT_EQ(cache.idle_pages(), 0);
  cache.release(two);
  EXPECT_EQ(cache.idle_pages(), 3);
}

TEST_F(PrefixTreeTest, RoomIsTakenFromLeavesLongestUnused) {
  PrefixTree tree(cache, states, false, 0);
  for (const auto& one : {tokens({1, 2, 3}), tokens({1, 5}), tokens({7, 8})}) {
    PageTable table = read(one);
    tree.insert(one, table);
    cache.release(table);
  }
  EXPECT_EQ(cache.idle_pages(), 6);
  tree.find(tokens({1, 2, 3}, 1));
  PageTable busy = cache.begin_with(tree.find(tokens({7, 8}, 1)).pages);
  PageTable other;
  cache.extend(other, 5 * kPage);  // four are free: 5 goes, the longest unused
  EXPECT_EQ(tree.find(tokens({1, 5}, 1)).pages.size(), 1u);
  EXPECT_EQ(tree.find(tokens({1, 2, 3}, 1)).pages.size(), 3u);
  cache.extend(other, 8 * kPage);  // 3, 2 and 1, but nothing of what is in use
  EXPECT_EQ(tree.size(), 2);
  EXPECT_EQ(tree.find(tokens({7, 8}, 1)).pages, busy.pages);
  EXPECT_EQ(cache.free_pages() + cache.idle_pages(), 0);
  tree.clear();
  cache.release(busy);
  cache.release(other);
  EXPECT_EQ(cache.free_pages(), 10);
}

TEST_F(PrefixTreeTest, WithStatesAPrefixEndsWhereOneIsKept) {
  PrefixTree tree(cache, states, true, 2);
  PageTable table = read(tokens({1, 2, 3}));
  tree.insert(tokens({1, 2, 3}), table);
  PrefixTree::Found found = tree.find(tokens({1, 2, 3}, 1));
  EXPECT_TRUE(found.pages.empty());
  EXPECT_EQ(found.known, 3);
  const std::int32_t running = states.take();
  states.state(running, 0)[0] = 42;
  tree.keep_state(tokens({1, 2}), running);
  tree.keep_state(tokens({1, 9}), running);  // has not been inserted
  EXPECT_EQ(tree.snapshots(), 1);
  found = tree.find(tokens({1, 2, 3}, 1));
  EXPECT_EQ(found.pages.size(), 2u);
  ASSERT_GE(found.state, 0);
  EXPECT_NE(found.state, running);
  EXPECT_EQ(states.state(found.state, 0)[0], 42);
  tree.keep_state(tokens({1}), running);
  tree.find(tokens({1, 2}, 1));
  tree.keep_state(tokens({1, 2, 3}), running);  // that of {1} gives way
  EXPECT_EQ(tree.snapshots(), 2);
  EXPECT_TRUE(tree.find(tokens({1, 7}, 1)).pages.empty());
  EXPECT_EQ(tree.find(tokens({1, 2, 3}, 1)).pages.size(), 3u);
  tree.clear();
  EXPECT_EQ(states.free_slots(), 5);
  cache.release(table);
  EXPECT_EQ(cache.free_pages(), 10);
}

nlohmann::json model_config(bool delta) {
  nlohmann::json out = {{"model_type", delta ? "qwen3_5_text" : "llama"},
                        {"hidden_size", 8},
                        {"num_hidden_layers", 3},
                        {"intermediate_size", 12},
                        {"num_attention_heads", 2},
                        {"head_dim", 8},
                        {"vocab_size", 11},
                        {"tie_word_embeddings", true},
                        {"max_position_embeddings", 400}};
  if (delta)
    out.update({{"layer_types", {"linear_attention", "full_attention", "linear_attention"}},
                {"linear_num_key_heads", 1},
                {"linear_num_value_heads", 2},
                {"linear_key_head_dim", 4},
                {"linear_value_head_dim", 4},
                {"linear_conv_kernel_dim", 4}});
  return out;
}

class SharedPrefixes : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "shared_prefixes" + (GetParam() ? "_delta" : "");
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    write("model", 1);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& name, std::uint64_t seed) {
    const nlohmann::json config = model_config(GetParam());
    NewCheckpoint model{.files = {{"config.json", config.dump()}}};
    at::manual_seed(seed);
    const auto wanted = family_tensors(config);
    ASSERT_TRUE(wanted);
    for (const FamilyTensor& one : *wanted)
      model.tensors.push_back({one.name, DType::kF32, one.shape, [value = at::randn(one.shape)] {
                                 return std::string_view(static_cast<const char*>(value.const_data_ptr()),
                                                         value.nbytes());
                               }});
    ASSERT_TRUE(write_checkpoint(model, folder_ + "/" + name));
  }
  std::unique_ptr<Engine> engine(EngineOptions options, const std::string& name = "model") {
    auto opened = Engine::open(folder_ + "/" + name, options);
    EXPECT_TRUE(opened) << opened.error().message;
    return std::move(*opened);
  }
  static GenerateRequest request(std::vector<TokenId> prompt, int samples = 1) {
    return {.prompt = std::move(prompt), .samples = samples, .sampling = {.max_tokens = 20, .seed = 3}};
  }
  // Each sample's tokens and log-probabilities.
  using Answers = std::map<int, std::vector<std::pair<TokenId, float>>>;
  static Answers finish(Engine& engine, const GenerateRequest& given) {
    Answers out;
    EXPECT_TRUE(engine.add(given));
    for (int step = 0; !engine.idle() && step < 1000; ++step) {
      const auto events = engine.step();
      EXPECT_TRUE(events);
      for (const TokenEvent& event : *events) out[event.sample].emplace_back(event.token, event.logprob);
    }
    return out;
  }
  static std::vector<TokenId> prompt(std::size_t same, std::size_t own, TokenId seed) {
    std::vector<TokenId> out;
    for (std::size_t i = 0; i < same; ++i) out.push_back(static_cast<TokenId>(i * i % 11));
    for (std::size_t i = 0; i < own; ++i) out.push_back(static_cast<TokenId>((i * 7 + seed) % 11));
    return out;
  }
  std::string folder_;
};

TEST_P(SharedPrefixes, AnswersAreTheSameBitsAndPromptsAreReadOnce) {
  const auto plain = engine({.share_prefixes = false}), sharing = engine({.step_tokens = 50});
  const std::vector<GenerateRequest> all = {request(prompt(70, 5, 1), 2), request(prompt(70, 5, 1), 3),
                                            request(prompt(70, 20, 2)), request(prompt(70, 30, 3)),
                                            request(prompt(70, 0, 0))};
  std::vector<std::int64_t> reused;
  for (const GenerateRequest& one : all) {
    const std::int64_t before = sharing->counts().reused_tokens;
    EXPECT_EQ(finish(*sharing, one), finish(*plain, one));
    reused.push_back(sharing->counts().reused_tokens - before);
  }
  // 64 of the 70 tokens fill pages. With DeltaNet layers: the first request keeps the state behind 64 tokens.
  EXPECT_EQ(reused, (std::vector<std::int64_t>{0, 64, 64, 64, 64}));
  EXPECT_EQ(plain->counts().reused_tokens, 0);
  const auto counts = sharing->counts();
  EXPECT_EQ(counts.prompt_tokens + counts.reused_tokens, plain->counts().prompt_tokens);
  EXPECT_EQ(counts.free_tokens, 16384);
}

TEST_P(SharedPrefixes, WherePromptsPartIsLearntFromTheSecond) {
  const auto sharing = engine({}), plain = engine({.share_prefixes = false});
  std::vector<std::int64_t> reused;
  for (TokenId seed = 1; seed <= 4; ++seed) {
    const std::int64_t before = sharing->counts().reused_tokens;
    const GenerateRequest one = request(prompt(40, 60, seed));
    EXPECT_EQ(finish(*sharing, one), finish(*plain, one));
    reused.push_back(sharing->counts().reused_tokens - before);
  }
  // The first request's state is behind 96 tokens, where others do not come by; the second one's also
  // behind 32.
  EXPECT_EQ(reused, GetParam() ? (std::vector<std::int64_t>{0, 0, 32, 32})
                               : (std::vector<std::int64_t>{0, 32, 32, 32}));
}

TEST_P(SharedPrefixes, ANextTurnBeginsWithTheLastAnswer) {
  const auto sharing = engine({}), plain = engine({.share_prefixes = false});
  GenerateRequest turn = request(prompt(30, 0, 0));
  for (int turns = 0; turns < 3; ++turns) {
    const Answers answer = finish(*sharing, turn);
    EXPECT_EQ(answer, finish(*plain, turn));
    for (const auto& [token, logprob] : answer.at(0)) turn.prompt.push_back(token);
    turn.prompt.insert(turn.prompt.end(), {1, 2, 3});
  }
  // Turns of 30, 53 and 76 tokens; the last token of an answer has not been read. With DeltaNet layers only
  // prompts.
  EXPECT_EQ(sharing->counts().reused_tokens, GetParam() ? 16 + 48 : 48 + 64);
}

TEST_P(SharedPrefixes, WhatIsKeptGivesWayToWhatRuns) {
  const auto tight = engine({.cache_tokens = 160, .max_running = 3});
  const auto plain = engine({.share_prefixes = false});
  for (TokenId seed = 1; seed <= 6; ++seed) {
    const GenerateRequest one = request(prompt(seed % 2 ? 40 : 0, 50, seed));
    EXPECT_EQ(finish(*tight, one), finish(*plain, one));
    EXPECT_EQ(tight->counts().free_tokens, 160);
  }
  EXPECT_GT(tight->counts().reused_tokens, 0);
}

// Swaps of weights while prefixes are shared.
class SwappedPrefixes : public SharedPrefixes {
 protected:
  void SetUp() override {
    SharedPrefixes::SetUp();
    write("next", 2);
  }
  void swap(Engine& engine, const std::string& name, SwapCache cache) {
    const auto weights = Engine::read_weights(folder_ + "/" + name, {});
    ASSERT_TRUE(weights);
    ASSERT_TRUE(engine.swap_weights({.weights = &*weights, .cache = cache}));
  }
  struct Trace {
    std::vector<TokenId> tokens;
    std::vector<float> logprobs;
    std::size_t old = 0;  // tokens of version 0, which come first
  };
  using Traces = std::map<std::pair<std::uint64_t, int>, Trace>;
  static void step(Engine& engine, Traces& out) {
    const auto events = engine.step();
    ASSERT_TRUE(events) << events.error().message;
    for (const TokenEvent& event : *events) {
      Trace& to = out[{event.request, event.sample}];
      if (event.version == 0) {
        EXPECT_EQ(to.old, to.tokens.size());
        ++to.old;
      }
      to.tokens.push_back(event.token);
      to.logprobs.push_back(event.logprob);
    }
  }
  static void finish(Engine& engine, Traces& out) {
    for (int steps = 0; !engine.idle() && steps < 1000; ++steps) step(engine, out);
    EXPECT_TRUE(engine.idle());
  }
  static GenerateRequest greedy(std::vector<TokenId> prompt, int samples, int tokens = 20) {
    return {.prompt = std::move(prompt),
            .samples = samples,
            .sampling = {.max_tokens = tokens, .temperature = 0, .ignore_eos = true}};
  }
  // The weights of `name` alone, on these tokens, nothing shared.
  Trace alone(const std::string& name, const std::vector<TokenId>& tokens, std::size_t count) {
    if (count == 0) return {};
    const auto plain = engine({.share_prefixes = false}, name);
    EXPECT_TRUE(plain->add(greedy(tokens, 1, static_cast<int>(count))));
    Traces out;
    finish(*plain, out);
    return out.begin()->second;
  }
  // All slots of states and all room are there again.
  void expect_nothing_lost(Engine& engine, std::int64_t tokens, int samples) {
    EXPECT_EQ(engine.counts().free_tokens, tokens);
    EXPECT_TRUE(engine.add(greedy(prompt(0, 3, 5), samples, 2)));
    Traces out;
    finish(engine, out);
    EXPECT_EQ(out.size(), static_cast<std::size_t>(samples));
  }
};

TEST_P(SwappedPrefixes, WhatBeginsAfterwardsSharesOnlyWhatTheNewWeightsRead) {
  for (const SwapCache cache : {SwapCache::kKeep, SwapCache::kRecompute}) {
    const auto sharing = engine({}), old = engine({.share_prefixes = false}),
               plain = engine({.share_prefixes = false}, "next");
    std::vector<std::int64_t> reused;
    for (int i = 0; i < 4; ++i) {
      if (i == 2) swap(*sharing, "next", cache);
      const std::int64_t before = sharing->counts().reused_tokens;
      const GenerateRequest one = request(prompt(70, 5, 1), 2);
      EXPECT_EQ(SharedPrefixes::finish(*sharing, one), SharedPrefixes::finish(i < 2 ? *old : *plain, one));
      reused.push_back(sharing->counts().reused_tokens - before);
    }
    EXPECT_EQ(reused, (std::vector<std::int64_t>{0, 64, 0, 64}));
    expect_nothing_lost(*sharing, 16384, 64);
  }
}

// Two requests share 64 tokens of prompt; the cache holds both, 8 pages each, in its 12 only because of that,
// so one waits for the other to be read again. The third comes after the swap.
TEST_P(SwappedPrefixes, WhatRunsIsReadAgainAndContinuesToTheBit) {
  const std::vector<std::vector<TokenId>> prompts = {prompt(70, 5, 1), prompt(70, 5, 1), prompt(70, 9, 2)};
  for (const int step_tokens : {256, 7})
    for (const int steps : {1, 3, 11, 13, 17}) {
      const auto sharing = engine({.cache_tokens = 192, .max_running = 5, .step_tokens = step_tokens});
      Traces got;
      const std::uint64_t first = *sharing->add(greedy(prompts[0], 2));
      for (int i = 0; i < steps; ++i) {
        if (i == steps / 2) {
          ASSERT_TRUE(sharing->add(greedy(prompts[1], 2, 10)));
        }
        step(*sharing, got);
      }
      if (step_tokens == 256 && steps > 1) {
        ASSERT_EQ(sharing->counts().reused_tokens, 64);
        ASSERT_EQ(got.size(), 4u);  // both are running
      }
      swap(*sharing, "next", SwapCache::kRecompute);
      ASSERT_TRUE(sharing->add(greedy(prompts[2], 1)));
      finish(*sharing, got);
      ASSERT_EQ(got.size(), 5u);
      std::size_t old = 0;
      for (const auto& [key, trace] : got) {
        std::vector<TokenId> tokens = prompts[key.first - first];
        const Trace begun = alone("model", tokens, trace.old);
        const auto middle = static_cast<std::ptrdiff_t>(trace.old);
        EXPECT_EQ(begun.tokens, std::vector<TokenId>(trace.tokens.begin(), trace.tokens.begin() + middle));
        tokens.insert(tokens.end(), begun.tokens.begin(), begun.tokens.end());
        const Trace rest = alone("next", tokens, trace.tokens.size() - trace.old);
        EXPECT_EQ(rest.tokens, std::vector<TokenId>(trace.tokens.begin() + middle, trace.tokens.end()));
        EXPECT_EQ(rest.logprobs, std::vector<float>(trace.logprobs.begin() + middle, trace.logprobs.end()));
        EXPECT_EQ(trace.tokens.size(), key.first == first + 1 ? 10u : 20u);
        old += trace.old;
      }
      if (step_tokens == 256 && steps > 1) {
        EXPECT_GT(old, 0u);
      }
      EXPECT_GT(sharing->counts().reused_tokens, 0);
      expect_nothing_lost(*sharing, 192, 5);
    }
}

// In the middle of a prompt with a snapshot still to come, and in the middle of answers.
TEST_P(SwappedPrefixes, WhatRunsOnAKeptCacheIsKeptForNobody) {
  for (const int steps : {2, 20}) {
    const auto sharing = engine({.max_running = 4, .step_tokens = 8}),
               plain = engine({.share_prefixes = false}, "next");
    Traces got;
    ASSERT_TRUE(sharing->add(greedy(prompt(70, 5, 1), 2)));
    for (int i = 0; i < steps; ++i) step(*sharing, got);
    swap(*sharing, "next", SwapCache::kKeep);
    finish(*sharing, got);
    ASSERT_EQ(got.size(), 2u);
    for (const auto& [key, trace] : got) {
      EXPECT_EQ(trace.old, steps == 2 ? 0u : 11u);  // the prompt takes ten steps
      EXPECT_EQ(trace.tokens.size(), 20u);
      const Trace fresh = alone("next", prompt(70, 5, 1), 20);
      EXPECT_NE(trace.logprobs, fresh.logprobs);
    }
    EXPECT_EQ(sharing->counts().prompt_tokens, 75);  // nothing was read again
    for (const std::int64_t reused : {0, 64}) {
      const std::int64_t before = sharing->counts().reused_tokens;
      const GenerateRequest one = request(prompt(70, 5, 1));
      EXPECT_EQ(SharedPrefixes::finish(*sharing, one), SharedPrefixes::finish(*plain, one));
      EXPECT_EQ(sharing->counts().reused_tokens - before, reused);
    }
    expect_nothing_lost(*sharing, 16384, 4);
  }
}

TEST_P(SwappedPrefixes, CancelledWhileItIsReadAgainItLeavesNothingBehind) {
  const auto sharing = engine({.cache_tokens = 320, .max_running = 3, .step_tokens = 7});
  for (const int more :
       {0, 1, 5, 12}) {  // steps after the swap: it waits, is read, its answers are, it goes on
    Traces got;
    const std::uint64_t id = *sharing->add(greedy(prompt(40, 5, 1), 3));
    for (int i = 0; i < 12; ++i) step(*sharing, got);
    swap(*sharing, more % 2 ? "next" : "model", SwapCache::kRecompute);
    for (int i = 0; i < more; ++i) step(*sharing, got);
    sharing->cancel(id);
    EXPECT_TRUE(sharing->idle());
    expect_nothing_lost(*sharing, 320, 3);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SharedPrefixes, testing::Bool());
INSTANTIATE_TEST_SUITE_P(Models, SwappedPrefixes, testing::Bool());

}  // namespace
}  // namespace musacoder::llm
