// The engine on each device that this machine has: swaps of weights while prefixes are shared, adapters, what
// is taken from a step's logits on the host, the same bits in any company; and a GPU against the CPU. The
// models have sizes that the GPU's kernels take: attention alone, and gated DeltaNet with gated attention.
#include <cmath>
#include <map>

#include "llm/generate/engine.h"
#include "llm/kernels/cuda/load.h"
#include "llm/model/lora.h"
#include "llm/model/weights.h"
#include "tiny_model.h"

namespace musacoder::llm {
namespace {

struct Case {
  const char *device, *model;
};

nlohmann::json sizes_of(const std::string& model) {
  nlohmann::json out = {{"hidden_size", 64},
                        {"intermediate_size", 96},
                        {"head_dim", 64},
                        {"vocab_size", 40},
                        {"num_key_value_heads", 1}};
  if (model == "llama") return out;
  out.update(
      {{"model_type", "qwen3_5_text"},
       {"layer_types", {"linear_attention", "full_attention", "linear_attention"}},
       {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1e4}, {"partial_rotary_factor", 0.25}}},
       {"linear_num_key_heads", 2},
       {"linear_num_value_heads", 4},
       {"linear_key_head_dim", 16},
       {"linear_value_head_dim", 48},
       {"linear_conv_kernel_dim", 4}});
  if (model == "delta256")  // Qwen3.5's own heads
    out.update({{"head_dim", 256},
                {"num_attention_heads", 6},
                {"linear_num_key_heads", 2},
                {"linear_num_value_heads", 2},
                {"linear_key_head_dim", 128},
                {"linear_value_head_dim", 128}});
  return out;
}

class EachDevice : public TinyModel, public testing::WithParamInterface<Case> {
 protected:
  // torch asks once what CUDA can do, at its first random number: libtorch_cuda.so has to be there by then.
  static void SetUpTestSuite() { (void)open_device("cuda"); }
  void SetUp() override {
    const auto device = open_device(GetParam().device);
    if (!device) GTEST_SKIP() << device.error().message;
    if (device->is_cuda() && !have_cuda_kernels()) GTEST_SKIP() << "the GPU's kernels are not installed";
    TinyModel::SetUp();
    std::filesystem::remove_all(folder_ + "/model");
    const nlohmann::json sizes = sizes_of(GetParam().model);
    // Scaled so that a product is about as large as what is multiplied: rounding is not blown up.
    write_model("model", 1, delta() ? 3 : 2, sizes, 0.125);
    write_model("next", 2, delta() ? 3 : 2, sizes, 0.125);
  }
  static bool delta() { return GetParam().model != std::string("llama"); }
  // An adapter of `model` whose update is a good part of its weights.
  void write_adapter() {
    const auto weights = Weights::open(folder_ + "/model", {});
    ASSERT_TRUE(weights);
    std::vector<std::string> targets = {"q_proj", "v_proj", "down_proj"};
    if (delta()) targets.insert(targets.end(), {"in_proj_qkv", "in_proj_b", "out_proj"});
    const auto lora = Lora::create(*weights, {.rank = 4, .alpha = 4, .targets = targets});
    ASSERT_TRUE(lora) << lora.error().message;
    at::manual_seed(5);
    {
      const at::NoGradGuard no_grad;
      for (at::Tensor half : lora->parameters()) half.normal_(0, 0.2);
    }
    ASSERT_TRUE(lora->save(folder_ + "/adapter"));
  }
  std::unique_ptr<Engine> engine(const std::string& name, EngineOptions options) {
    options.device = GetParam().device;
    auto opened = Engine::open(folder_ + "/" + name, options);
    EXPECT_TRUE(opened) << opened.error().message;
    return std::move(*opened);
  }
  void swap(Engine& engine, SwapCache cache) {
    const auto weights = Engine::read_weights(folder_ + "/next", {.device = GetParam().device});
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
    // With states the first prompt is read in two steps: up to where its state is kept, and the rest.
    EXPECT_EQ(old, id == first && !delta() ? 7u : id == first || id == second ? 6u : 0u);
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
  const std::size_t first_new = delta() ? 4 : 5;
  EXPECT_EQ(got.begin()->second[first_new - 1].version, 0);
  EXPECT_EQ(got.begin()->second[first_new].version, 1);
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

TEST_P(EachDevice, AnAnswerIsTheSameBitsInAnyCompany) {
  for (const char* type : {"f32", "bf16"}) {
    std::vector<GenerateRequest> requests;
    for (TokenId i = 0; i < 4; ++i) {
      requests.push_back(greedy(prompt(i)));
      requests.back().samples = 1 + static_cast<int>(i) % 3;
      requests.back().sampling.temperature = 0.8 * (i % 2);
      requests.back().sampling.seed = i;
      if (i == 3) requests.back().prompt.resize(3);
    }
    // Prompts in pieces beside running samples, prefixes and states shared; and each by itself, in one piece.
    const auto crowd = engine("model", {.type = type, .max_running = 8, .step_tokens = 11});
    Events together;
    std::vector<std::uint64_t> ids;
    for (const GenerateRequest& one : requests) {
      ids.push_back(*crowd->add(one));
      for (int i = 0; i < 5; ++i) step(*crowd, together);
    }
    finish(*crowd, together);
    EXPECT_GT(crowd->counts().reused_tokens, 0);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const auto quiet = engine("model", {.type = type, .share_prefixes = false});
      ASSERT_TRUE(quiet->add(requests[i]));
      Events alone;
      finish(*quiet, alone);
      for (int sample = 0; sample < requests[i].samples; ++sample) {
        const auto of = [&](const std::vector<TokenEvent>& events) {
          std::vector<TokenEvent> out;
          for (const TokenEvent& event : events)
            if (event.sample == sample) out.push_back(event);
          return said(out, 0);
        };
        EXPECT_EQ(of(together[ids[i]]), of(alone.begin()->second))
            << type << ", request " << i << ", sample " << sample;
      }
    }
  }
}

TEST_P(EachDevice, AnAdapterComesAndGoesWithSwaps) {
  write_adapter();
  const auto plain = engine("model", {}), adapted = engine("model", {.adapter = folder_ + "/adapter"});
  Events without, with, swapped;
  ASSERT_TRUE(plain->add(greedy(prompt(1))) && adapted->add(greedy(prompt(1))));
  finish(*plain, without);
  finish(*adapted, with);
  const auto want = said(with.begin()->second, 0), before = said(without.begin()->second, 0);
  EXPECT_NE(want, before);
  const auto weights = Engine::read_weights(folder_ + "/model", {.device = GetParam().device});
  const auto lora = Lora::open(*weights, folder_ + "/adapter");
  ASSERT_TRUE(lora) << lora.error().message;
  for (const Lora* now : {&*lora, static_cast<const Lora*>(nullptr)}) {
    const Status done = plain->swap_weights({.weights = &*weights, .adapter = now});
    ASSERT_TRUE(done) << done.error().message;
    const std::uint64_t id = *plain->add(greedy(prompt(1)));
    finish(*plain, swapped);
    EXPECT_EQ(said(swapped[id], 0), now ? want : before) << (now ? "the adapter came" : "the adapter went");
  }
}

// How far the log-probabilities of all tokens are from the CPU's, relative to how far those are from each
// other, over the steps before the tokens part; where they do, the CPU must not be sure.
TEST_P(EachDevice, AGpuSaysWhatTheCpuSays) {
  if (GetParam().device == std::string("cpu")) GTEST_SKIP() << "the CPU is what is compared with";
  write_adapter();
  for (const std::string type : {"f32", "bf16"})
    for (const bool adapted : {false, true}) {
      const std::string adapter = adapted ? folder_ + "/adapter" : "";
      const auto here = engine("model", {.type = type, .adapter = adapter});
      // In bf16 a merged matrix has been rounded once more than one whose adapter is kept apart: the CPU is given
      // the merged ones then.
      const bool apart = type == "f32";
      auto opened = Engine::open(folder_ + "/model", {.type = type, .adapter = apart ? adapter : ""});
      ASSERT_TRUE(opened) << opened.error().message;
      if (adapted && !apart) {
        const auto weights = Engine::read_weights(folder_ + "/model", {.type = type});
        const auto lora = Lora::open(*weights, adapter);
        ASSERT_TRUE(lora) << lora.error().message;
        const auto whole = merged(*weights, *lora);
        ASSERT_TRUE(whole) << whole.error().message;
        const Status swapped = (*opened)->swap_weights({.weights = &*whole});
        ASSERT_TRUE(swapped) << swapped.error().message;
      }
      Events got, want;
      for (TokenId last = 0; last < 4; ++last) {
        GenerateRequest request = greedy(prompt(last));
        request.top_logprobs = 40;
        if (last == 3) request.prompt.resize(1);
        ASSERT_TRUE(here->add(request) && (*opened)->add(request));
      }
      finish(*here, got);
      finish(**opened, want);
      const double bound = type == "f32" ? 1e-4 : 0.06;
      std::size_t compared = 0;
      for (const auto& [id, events] : want)
        for (std::size_t i = 0; i < events.size(); ++i, ++compared) {
          ASSERT_EQ(events[i].top.size(), 40u);
          ASSERT_EQ(got[id][i].top.size(), 40u);
          std::map<TokenId, float> other;
          for (const TokenLogprob& one : got[id][i].top) other[one.token] = one.logprob;
          double mean = 0, spread = 0, error = 0, most = 0;
          for (const TokenLogprob& one : events[i].top) mean += one.logprob / 40.0;
          for (const TokenLogprob& one : events[i].top) {
            const double apart = std::abs(one.logprob - other[one.token]);
            spread += (one.logprob - mean) * (one.logprob - mean);
            error += apart * apart;
            most = std::max(most, apart);
          }
          const std::string where =
              fmt::format("{}{}, request {}, token {}: {} here, {} on the CPU", type,
                          adapted ? " with the adapter" : "", id, i, got[id][i].token, events[i].token);
          EXPECT_LT(std::sqrt(error / spread), bound) << where;
          if (got[id][i].token == events[i].token) continue;
          EXPECT_LT(events[i].top[0].logprob - events[i].top[1].logprob, 2 * most) << where;
          break;  // from here on they answer to different texts
        }
      EXPECT_GE(compared, type == "f32" ? 60u : 12u) << type << ": they part too early to say anything";
    }
}

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const char* device : {"cpu", "cuda"})
    for (const char* model : {"llama", "delta", "delta256"}) out.push_back({device, model});
  return out;
}

INSTANTIATE_TEST_SUITE_P(Devices, EachDevice, testing::ValuesIn(cases()), [](const auto& info) {
  return std::string(info.param.model) + "_" + info.param.device;
});

}  // namespace
}  // namespace musacoder::llm
