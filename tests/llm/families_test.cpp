#include "llm/checkpoint/families.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "support.h"

namespace musacoder::llm {
namespace {

using nlohmann::json;

std::map<std::string, Shape> tensors_of(const json& config) {
  const auto tensors = family_tensors(config);
  EXPECT_TRUE(tensors) << tensors.error().message;
  std::map<std::string, Shape> out;
  for (const auto& t : *tensors) out[t.name] = t.shape;
  EXPECT_EQ(out.size(), tensors->size()) << "no name twice";
  return out;
}

std::uint64_t parameters(const std::map<std::string, Shape>& tensors) {
  std::uint64_t n = 0;
  for (const auto& [name, shape] : tensors) n += static_cast<std::uint64_t>(*element_count(shape));
  return n;
}

// SmolLM2-135M's config.json; 134,515,008 parameters are what its model card's safetensors have.
TEST(Families, Llama) {
  const auto t = tensors_of({{"model_type", "llama"}, {"hidden_size", 576}, {"intermediate_size", 1536}, {"num_hidden_layers", 30}, {"num_attention_heads", 9},
                             {"num_key_value_heads", 3}, {"vocab_size", 49152}, {"tie_word_embeddings", true}});
  EXPECT_EQ(t.size(), 272u);
  EXPECT_EQ(parameters(t), 134'515'008u);
  EXPECT_EQ(t.at("model.layers.29.self_attn.k_proj.weight"), (Shape{192, 576}));
}

// Qwen3-0.6B: 596,049,920 parameters, embeddings tied.
TEST(Families, Qwen3) {
  const auto t = tensors_of({{"model_type", "qwen3"}, {"hidden_size", 1024}, {"intermediate_size", 3072}, {"num_hidden_layers", 28}, {"num_attention_heads", 16},
                             {"num_key_value_heads", 8}, {"head_dim", 128}, {"vocab_size", 151936}, {"tie_word_embeddings", true}});
  EXPECT_EQ(parameters(t), 596'049'920u);
  EXPECT_EQ(t.at("model.layers.0.self_attn.q_norm.weight"), (Shape{128}));
  EXPECT_EQ(t.count("lm_head.weight"), 0u);
}

// Qwen2.5-0.5B: 494,032,768 parameters, with biases on q, k and v.
TEST(Families, Qwen2) {
  const auto t = tensors_of({{"model_type", "qwen2"}, {"hidden_size", 896}, {"intermediate_size", 4864}, {"num_hidden_layers", 24}, {"num_attention_heads", 14},
                             {"num_key_value_heads", 2}, {"vocab_size", 151936}, {"tie_word_embeddings", true}});
  EXPECT_EQ(parameters(t), 494'032'768u);
  EXPECT_EQ(t.at("model.layers.3.self_attn.v_proj.bias"), (Shape{128}));
  EXPECT_EQ(t.count("model.layers.3.self_attn.o_proj.bias"), 0u);
}

// Qwen3.6-27B's table of tensor shapes.
TEST(Families, Qwen35) {
  const json text = {{"model_type", "qwen3_5_text"}, {"hidden_size", 5120}, {"intermediate_size", 17408}, {"num_hidden_layers", 64}, {"num_attention_heads", 24},
                     {"num_key_value_heads", 4}, {"head_dim", 256}, {"vocab_size", 248320}, {"linear_num_key_heads", 16}, {"linear_key_head_dim", 128},
                     {"linear_num_value_heads", 48}, {"linear_value_head_dim", 128}, {"linear_conv_kernel_dim", 4}};
  const auto t = tensors_of({{"model_type", "qwen3_5"}, {"text_config", text}, {"tie_word_embeddings", false}});
  const std::string layer = "model.language_model.layers.";
  EXPECT_EQ(t.at("lm_head.weight"), (Shape{248320, 5120}));
  EXPECT_EQ(t.at(layer + "3.self_attn.q_proj.weight"), (Shape{12288, 5120}));
  EXPECT_EQ(t.at(layer + "63.self_attn.o_proj.weight"), (Shape{5120, 6144}));
  EXPECT_EQ(t.at(layer + "0.linear_attn.in_proj_qkv.weight"), (Shape{10240, 5120}));
  EXPECT_EQ(t.at(layer + "0.linear_attn.in_proj_z.weight"), (Shape{6144, 5120}));
  EXPECT_EQ(t.at(layer + "2.linear_attn.conv1d.weight"), (Shape{10240, 1, 4}));
  EXPECT_EQ(t.at(layer + "2.linear_attn.norm.weight"), (Shape{128}));
  EXPECT_EQ(t.count(layer + "3.linear_attn.norm.weight"), 0u);
  EXPECT_EQ(t.count(layer + "0.self_attn.q_proj.weight"), 0u);
  EXPECT_EQ(tensors_of(text).count("model.layers.0.linear_attn.A_log"), 1u) << "the text model alone";
}

TEST(Families, SaysWhatIsWrong) {
  const json good = {{"model_type", "llama"}, {"hidden_size", 8}, {"intermediate_size", 8}, {"num_hidden_layers", 1}, {"num_attention_heads", 2}, {"vocab_size", 4}};
  EXPECT_TRUE(family_tensors(good));
  const auto told = [&](const char* key, json value) {
    json config = good;
    config[key] = std::move(value);
    const auto t = family_tensors(config);
    return t ? std::string() : t.error().message;
  };
  EXPECT_NE(told("model_type", "mamba").find("'mamba'"), std::string::npos);
  EXPECT_NE(told("model_type", nullptr).find("''"), std::string::npos);
  EXPECT_NE(told("hidden_size", nullptr).find("hidden_size is missing"), std::string::npos);
  EXPECT_NE(told("hidden_size", -8).find("hidden_size is no sensible number"), std::string::npos);
  EXPECT_NE(told("num_attention_heads", 0).find("num_attention_heads"), std::string::npos);
  EXPECT_NE(told("num_hidden_layers", 1e9).find("num_hidden_layers"), std::string::npos);
  EXPECT_FALSE(family_tensors(json::array()));
}

TEST(Families, ComparesWithACheckpoint) {
  const auto dir = folder_of({{"model.safetensors", safetensors_of(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})", "xyz")}});
  const auto check = check_tensors(*Checkpoint::open(dir.path()), {{"a", {1, 2}}, {"c", {3}}});
  EXPECT_EQ(check.missing, std::vector<std::string>{"c"});
  EXPECT_EQ(check.misshapen, std::vector<std::string>{"a: [2], the configuration makes it [1, 2]"});
  EXPECT_EQ(check.others, std::vector<std::string>{"b"});
}

}  // namespace
}  // namespace musacoder::llm
