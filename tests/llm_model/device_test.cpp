// The engine on each device that this machine has: swaps of weights while prefixes are shared, and what is
// taken from a step's logits on the host. The model has sizes that the GPU's kernels take.
#include <map>

#include "llm/generate/engine.h"
#include "llm/kernels/cuda/load.h"
#include "llm/model/weights.h"
#include "tiny_model.h"

namespace musacoder::llm {
namespace {

class EachDevice : public TinyModel, public testing::WithParamInterface<const char*> {
 protected:
  // torch asks once what CUDA can do, at its first random number: libtorch_cuda.so has to be there by then.
  static void SetUpTestSuite() { (void)open_device("cuda"); }
  void SetUp() override {
    const auto device = open_device(GetParam());
    if (!device) GTEST_SKIP() << device.error().message;
    if (device->is_cuda() && !have_cuda_kernels()) GTEST_SKIP() << "the GPU's kernels are not installed";
    TinyModel::SetUp();
    std::filesystem::remove_all(folder_ + "/model");
    const nlohmann::json sizes = {{"hidden_size", 64},
                                  {"intermediate_size", 96},
                                  {"head_dim", 64},
                                  {"vocab_size", 40},
                                  {"num_key_value_heads", 1}};
    write_model("model", 1, 2, sizes);
    write_model("next", 2, 2, sizes);
  }
  std::unique_ptr<Engine> engine(const std::string& name, EngineOptions options) {
    options.device = GetParam();
    auto opened = Engine::open(folder_ + "/" + name, options);
    EXPECT_TRUE(opened) << opened.error().message;
    return std::move(*opened);
  }
  void swap(Engine& engine, SwapCache cache) {
    const auto weights = Engine::read_weights(folder_ + "/next", {.device = GetParam()});
    ASSERT_TRUE(weights);
    const Status swapped = engine.swap_weights({.weights = &*weights, .cache = cache});
    ASSERT_TRUE(swapped) << swapped.error().message;
  }
  using Events = std::map<std::uint64_t, std::vector<TokenEvent>>;
  static void step(Engine& engine, Events& out) {
    const auto events = engine.step();
    ASSERT_TRUE(events) << events.error().message;
    for (const TokenEvent& event : *events) out[event.request].push_back(event);
  }
  static void finish(Engine& engine, Events& out) {
    for (int steps = 0; !engine.idle() && steps < 1000; ++steps) step(engine, out);
    EXPECT_TRUE(engine.idle());
  }
  static GenerateRequest greedy(std::vector<TokenId> prompt, int tokens = 20) {
    return {.prompt = std::move(prompt),
            .sampling = {.max_tokens = tokens, .temperature = 0, .ignore_eos = true}};
  }
  static std::vector<TokenId> prompt(TokenId last) {
    std::vector<TokenId> out;
    for (TokenId i = 0; i < 40; ++i) out.push_back(i * i % 37);
    out.push_back(last);
    return out;
  }
  static std::vector<std::pair<TokenId, float>> said(const std::vector<TokenEvent>& events,
                                                     std::size_t from) {
    std::vector<std::pair<TokenId, float>> out;
    for (std::size_t i = from; i < events.size(); ++i) out.emplace_back(events[i].token, events[i].logprob);
    return out;
  }
};

TEST_P(EachDevice, AfterASwapTokensAreThoseOfTheNewWeights) {
  const auto run = engine("model", {});
  Events got;
  const std::uint64_t first = *run->add(greedy(prompt(1)));
  step(*run, got);
  const std::uint64_t second = *run->add(greedy(prompt(2)));
  for (int i = 0; i < 6; ++i) step(*run, got);
  EXPECT_EQ(run->counts().reused_tokens, 32);
  swap(*run, SwapCache::kRecompute);
  const std::uint64_t third = *run->add(greedy(prompt(3)));
  finish(*run, got);
  ASSERT_EQ(got.size(), 3u);
  for (const auto& [id, events] : got) {
    ASSERT_EQ(events.size(), 20u);
    std::vector<TokenId> tokens = prompt(id == first ? 1 : id == second ? 2 : 3);
    std::size_t old = 0;
    for (; old < events.size() && events[old].version == 0; ++old) tokens.push_back(events[old].token);
    EXPECT_EQ(old, id == first ? 7u : id == second ? 6u : 0u);
    const auto alone = engine("next", {.share_prefixes = false});
    ASSERT_TRUE(alone->add(greedy(tokens, static_cast<int>(events.size() - old))));
    Events want;
    finish(*alone, want);
    EXPECT_EQ(said(events, old), said(want.begin()->second, 0)) << id;  // to the bit
  }
  EXPECT_EQ(third, second + 1);
  EXPECT_EQ(run->counts().free_tokens, 16384);
}

TEST_P(EachDevice, OnAKeptCacheWhatRunsGoesOnAndWhatComesIsNew) {
  const auto run = engine("model", {}), alone = engine("next", {.share_prefixes = false});
  Events got, want;
  ASSERT_TRUE(run->add(greedy(prompt(1))));
  for (int i = 0; i < 5; ++i) step(*run, got);
  swap(*run, SwapCache::kKeep);
  finish(*run, got);
  EXPECT_EQ(got.begin()->second.size(), 20u);
  EXPECT_EQ(got.begin()->second[4].version, 0);
  EXPECT_EQ(got.begin()->second[5].version, 1);
  EXPECT_EQ(run->counts().prompt_tokens, 41);
  const std::uint64_t id = *run->add(greedy(prompt(1)));
  finish(*run, got);
  ASSERT_TRUE(alone->add(greedy(prompt(1))));
  finish(*alone, want);
  EXPECT_EQ(said(got[id], 0), said(want.begin()->second, 0));
  EXPECT_EQ(run->counts().reused_tokens, 0);
}

TEST_P(EachDevice, WhatIsTakenFromLogitsOnTheHostIsOfTheSameStep) {
  const auto run = engine("model", {});
  GenerateRequest plain = greedy(prompt(1)), listed = plain, biased = plain;
  listed.top_logprobs = 3;
  biased.sampling.logit_bias = {{5, 100.0f}};
  biased.top_logprobs = 40;
  const std::uint64_t a = *run->add(plain), b = *run->add(listed), c = *run->add(biased);
  Events got;
  finish(*run, got);
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(got[a][i].token, got[b][i].token);
    ASSERT_EQ(got[b][i].top.size(), 3u);
    EXPECT_EQ(got[b][i].top[0].token, got[b][i].token);
    EXPECT_NEAR(got[b][i].top[0].logprob, got[b][i].logprob, 1e-4);  // summed on the device, and on the host
    EXPECT_EQ(got[c][i].token, 5u);
    for (const TokenLogprob& one : got[c][i].top)
      if (one.token == 5) {
        EXPECT_EQ(one.logprob, got[c][i].logprob);
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, EachDevice, testing::Values("cpu", "cuda"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace musacoder::llm
