// Rotary frequencies against hand calculation; both spellings of the settings.
#include "llm/model/config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace musacoder::llm {
namespace {

nlohmann::json sizes() {
  return {{"model_type", "llama"},  {"hidden_size", 16},        {"num_hidden_layers", 1},
          {"intermediate_size", 8}, {"num_attention_heads", 2}, {"vocab_size", 5}};
}

TEST(ModelConfig, OldAndNewRotarySpellings) {
  nlohmann::json old = sizes(), fresh = sizes();
  old["rope_theta"] = 500000.0;
  old["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
  fresh["rope_parameters"] = {{"rope_type", "linear"}, {"rope_theta", 500000.0}, {"factor", 4.0}};
  for (const auto& json : {old, fresh}) {
    const auto config = parse_model_config(json);
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_EQ(config->rotary.theta, 500000.0);
    const auto frequencies = rotary_frequencies(config->rotary, config->head_dim);
    ASSERT_EQ(frequencies.size(), 4u);
    EXPECT_FLOAT_EQ(frequencies[0], 0.25f);                                         // 500000^0 / 4
    EXPECT_FLOAT_EQ(frequencies[2], static_cast<float>(0.25 / std::sqrt(500000)));  // 500000^(-4/8) / 4
  }
}

TEST(ModelConfig, Llama3KeepsShortWavesSlowsLongOnesAndBlendsBetween) {
  RotaryConfig rotary{.theta = 10000,
                      .scaling = RotaryConfig::Scaling::kLlama3,
                      .factor = 8,
                      .low_freq_factor = 1,
                      .high_freq_factor = 4,
                      .original_positions = 128};
  const auto got =
      rotary_frequencies(rotary, 8);   // plain: 1, 0.1, 0.01, 0.001; wavelengths 6.28, 62.8, 628, 6283
  EXPECT_FLOAT_EQ(got[0], 1.0f);       // 6.28 < 128 / 4
  EXPECT_FLOAT_EQ(got[2], 0.01f / 8);  // 628 > 128 / 1
  const double keep = (128 / (2 * 3.14159265358979 / 0.1) - 1) / 3;  // 0.34573
  EXPECT_NEAR(got[1], (1 - keep) * 0.1 / 8 + keep * 0.1, 1e-7);
}

TEST(ModelConfig, EosMayBeOneOrMany) {
  nlohmann::json one = sizes(), many = sizes();
  one["eos_token_id"] = 2;
  many["eos_token_id"] = {3, 4};
  EXPECT_EQ(parse_model_config(one)->eos, (std::vector<std::int64_t>{2}));
  EXPECT_EQ(parse_model_config(many)->eos, (std::vector<std::int64_t>{3, 4}));
  EXPECT_TRUE(parse_model_config(sizes())->eos.empty());
}

}  // namespace
}  // namespace musacoder::llm
