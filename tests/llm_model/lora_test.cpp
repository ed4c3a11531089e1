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
