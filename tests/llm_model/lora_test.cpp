// A new adapter: names and shapes, its start, and its way to disk and back.
#include "llm/model/lora.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "llm/model/decoder.h"
#include "llm_model/tiny_model.h"

namespace musacoder::llm {
namespace {

class LoraTest : public TinyModel {
 protected:
  void SetUp() override {
    TinyModel::SetUp();
    auto opened = Weights::open(folder_ + "/model", {});
    ASSERT_TRUE(opened) << opened.error().message;
    weights_ = std::move(*opened);
  }
  at::Tensor hidden(const Lora* lora) const {
    const Packed batch = pack({{1, 2, 3}, {4, 5}});
    PackedAttention attention(batch);
    return Decoder(weights_, lora).hidden(batch, attention);
  }
  Weights weights_;
};

TEST_F(LoraTest, ANewOneChangesNothingAndFollowsItsSeed) {
  const auto lora = Lora::create(weights_, {.rank = 2, .targets = {"q_proj", "down_proj"}, .seed = 3});
  ASSERT_TRUE(lora) << lora.error().message;
  EXPECT_EQ(lora->names(),
            (std::vector<std::string>{"base_model.model.model.layers.0.mlp.down_proj.lora_A.weight",
                                      "base_model.model.model.layers.0.mlp.down_proj.lora_B.weight",
                                      "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight",
                                      "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight",
                                      "base_model.model.model.layers.1.mlp.down_proj.lora_A.weight",
                                      "base_model.model.model.layers.1.mlp.down_proj.lora_B.weight",
                                      "base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight",
                                      "base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight"}));
  const auto* pair = lora->find("model.layers.1.mlp.down_proj");
  ASSERT_NE(pair, nullptr);
  EXPECT_EQ(pair->a.sizes(), (at::IntArrayRef{2, 12}));
  EXPECT_EQ(pair->b.sizes(), (at::IntArrayRef{8, 2}));
  EXPECT_LE(pair->a.abs().max().item<double>(), 1 / std::sqrt(12.0));
  EXPECT_GT(pair->a.abs().max().item<double>(), 0.5 / std::sqrt(12.0));
  EXPECT_TRUE(at::equal(hidden(&*lora), hidden(nullptr)));
  const auto same = Lora::create(weights_, {.rank = 2, .targets = {"q_proj", "down_proj"}, .seed = 3});
  const auto other = Lora::create(weights_, {.rank = 2, .targets = {"q_proj", "down_proj"}, .seed = 4});
  EXPECT_TRUE(at::equal(same->parameters()[0], lora->parameters()[0]));
  EXPECT_FALSE(at::equal(other->parameters()[0], lora->parameters()[0]));
}

TEST_F(LoraTest, GoesToDiskAndBack) {
  const auto lora = Lora::create(weights_, {.rank = 2, .alpha = 7, .targets = {"v_proj"}});
  {
    const at::NoGradGuard no_grad;
    lora->parameters()[1].fill_(0.5);
  }
  const auto saved = lora->save(folder_ + "/adapter");
  ASSERT_TRUE(saved) << saved.error().message;
  const auto back = Lora::open(weights_, folder_ + "/adapter");
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->scale(), 3.5);
  EXPECT_EQ(back->names(), lora->names());
  for (std::size_t i = 0; i < lora->names().size(); ++i)
    EXPECT_TRUE(at::equal(back->parameters()[i], lora->parameters()[i]));
  EXPECT_FALSE(at::equal(hidden(&*back), hidden(nullptr)));
  EXPECT_TRUE(at::equal(hidden(&*back), hidden(&*lora)));
}

// Random halves, so that the update is as large as the weights.
void fill(const Lora& lora, double scale) {
  const at::NoGradGuard no_grad;
  for (at::Tensor half : lora.parameters()) half.normal_(0, scale);
}

TEST_F(LoraTest, MergedIsTheWeightWithTheUpdateAndLeavesTheRestAlone) {
  const auto lora = Lora::create(weights_, {.rank = 2, .alpha = 3, .targets = {"q_proj", "up_proj"}});
  fill(*lora, 0.7);
  const at::Tensor before = weights_.get("model.layers.1.self_attn.q_proj.weight").clone();
  const auto whole = merged(weights_, *lora);
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(whole->names(), weights_.names());
  for (const std::string& name : weights_.names()) {
    const Lora::Pair* pair = lora->find(name.substr(0, name.rfind('.')));
    if (!pair) {
      EXPECT_EQ(whole->get(name).data_ptr(), weights_.get(name).data_ptr()) << name;
      continue;
    }
    const at::Tensor want =
        weights_.get(name).to(at::kDouble) +
        1.5 * at::matmul(pair->b.detach().to(at::kDouble), pair->a.detach().to(at::kDouble));
    EXPECT_TRUE(at::allclose(whole->get(name).to(at::kDouble), want, 1e-6, 1e-6)) << name;
  }
  EXPECT_TRUE(at::equal(weights_.get("model.layers.1.self_attn.q_proj.weight"), before));
}

TEST_F(LoraTest, MergedComputesAsTheAdapterKeptApart) {
  for (const WeightType type : {WeightType::kF32, WeightType::kBF16}) {
    const auto weights = Weights::open(folder_ + "/model", {.type = type});
    const auto lora =
        Lora::create(*weights, {.rank = 2, .targets = {"q_proj", "v_proj", "o_proj", "down_proj"}});
    fill(*lora, 0.5);
    const auto whole = merged(*weights, *lora);
    ASSERT_TRUE(whole) << whole.error().message;
    EXPECT_EQ(whole->get("model.layers.0.self_attn.q_proj.weight").scalar_type(),
              type == WeightType::kF32 ? at::kFloat : at::kBFloat16);
    const Packed batch = pack({{1, 2, 3, 4, 5, 6, 7}, {8, 9, 10}});
    const auto logits = [&](const Weights& of, const Lora* by) {
      PackedAttention attention(batch);
      const Decoder decoder(of, by);
      const at::NoGradGuard no_grad;
      return at::linear(decoder.hidden(batch, attention).to(at::kFloat), decoder.head().to(at::kFloat));
    };
    const at::Tensor apart = logits(*weights, &*lora), together = logits(*whole, nullptr);
    const double error = ((apart - together).norm() / apart.norm()).item<double>();
    EXPECT_LT(error, type == WeightType::kF32 ? 1e-5 : 0.03);
    EXPECT_GT(((apart - logits(*weights, nullptr)).norm() / apart.norm()).item<double>(), 0.1);
    // Where the first two logits are further apart than the types' difference the likeliest is the same.
    const auto top = apart.topk(2, 1);
    const at::Tensor sure =
        std::get<0>(top).select(1, 0) - std::get<0>(top).select(1, 1) > 4 * (apart - together).abs().max();
    EXPECT_GE(sure.sum().item<int>(), type == WeightType::kF32 ? 9 : 3);
    EXPECT_TRUE(at::equal(apart.argmax(1).masked_select(sure), together.argmax(1).masked_select(sure)));
  }
}

TEST_F(LoraTest, AnEmbeddingIsNoTarget) {
  for (const char* name : {"embed_tokens", "lm_head"}) {
    const auto lora = Lora::create(weights_, {.rank = 2, .targets = {"q_proj", name}});
    ASSERT_FALSE(lora);
    EXPECT_NE(lora.error().message.find(name), std::string::npos) << lora.error().message;
  }
}

TEST_F(LoraTest, WeightsAreViewsOnTheFile) {
  const at::Tensor one = weights_.get("model.norm.weight"),
                   again = Weights::open(folder_ + "/model", {})->get("model.norm.weight");
  EXPECT_TRUE(at::equal(one, values_.back()));  // the last tensor of a tied model
  EXPECT_FALSE(one.requires_grad());
  EXPECT_NE(one.data_ptr(), values_.back().data_ptr());
  weights_ = Weights();
  std::filesystem::remove_all(folder_ + "/model");
  EXPECT_TRUE(at::equal(one, again));  // the mapping outlives weights and file
}

}  // namespace
}  // namespace musacoder::llm
