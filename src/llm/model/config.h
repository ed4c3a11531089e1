// The sizes and switches of a decoder, read from config.json: what the blocks are built from.
//
//   MC_ASSIGN_OR_RETURN(ModelConfig config, parse_model_config(checkpoint.config()));
//   config.heads * config.head_dim;       // columns of q
//
// Families: llama (SmolLM2, Llama 3), qwen2, qwen3. Both spellings of rotary settings are read: rope_theta
// and rope_scaling (transformers 4), rope_parameters (transformers 5). Whatever would change the numbers and
// is not built is refused with kUnsupported and its name: sliding windows, dropout, other activations, other
// rotary scalings than linear and llama3.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/status.h"

namespace musacoder::llm {

struct RotaryConfig {
  enum class Scaling { kNone, kLinear, kLlama3 };
  double theta = 10000;
  Scaling scaling = Scaling::kNone;
  double factor = 1;
  double low_freq_factor = 1, high_freq_factor = 4;  // kLlama3
  double original_positions = 8192;                  // kLlama3
  bool operator==(const RotaryConfig&) const = default;
};

struct ModelConfig {
  std::string family;  // model_type
  std::int64_t vocab = 0, hidden = 0, inner = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t max_positions = 0;  // 0: not said
  double norm_eps = 1e-6;
  RotaryConfig rotary;
  bool tied = false;              // the embedding is the output matrix too
  bool qk_norm = false;           // Qwen3: RMSNorm of every head of q and k
  std::vector<std::int64_t> eos;  // config.json's, often fewer than generation_config.json's
  bool operator==(const ModelConfig&) const = default;
};

// kInvalidArgument: a value that is missing, of a wrong type or senseless.
Result<ModelConfig> parse_model_config(const nlohmann::json& config);

// Rotation per position of each pair of dimensions, head_dim / 2 of them, in float32 as transformers computes
// them (modeling_rope_utils.py; llama3: wavelengths beyond the original context are slowed by `factor`, those
// well inside stay, those between are interpolated).
std::vector<float> rotary_frequencies(const RotaryConfig& rotary, std::int64_t head_dim);

}  // namespace musacoder::llm
