// The sizes and switches of a decoder, read from config.json: what the blocks are built from.
//
//   MC_ASSIGN_OR_RETURN(ModelConfig config, parse_model_config(checkpoint.config()));
//   config.heads * config.head_dim;       // columns of q
//
// Families: llama (SmolLM2, Llama 3), qwen2, qwen3, qwen3_5 (the text trunk: its text_config, or
// qwen3_5_text alone). Both spellings of rotary settings are read: rope_theta
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

enum class LayerKind { kAttention, kDelta };

// Gated DeltaNet layers (https://arxiv.org/abs/2412.06464): each key head serves value_heads / key_heads
// value heads one behind the other.
struct DeltaConfig {
  std::int64_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;  // dims of one head
  std::int64_t kernel = 0;                                                  // taps of the convolution
  std::int64_t channels() const { return 2 * key_heads * key_dim + value_heads * value_dim; }
  bool operator==(const DeltaConfig&) const = default;
};

struct ModelConfig {
  std::string family;             // model_type; qwen3_5 for qwen3_5_text too
  std::string prefix = "model.";  // of the trunk's tensor names
  std::int64_t vocab = 0, hidden = 0, inner = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t max_positions = 0;  // 0: not said
  double norm_eps = 1e-6;
  RotaryConfig rotary;
  bool tied = false;            // the embedding is the output matrix too
  bool qk_norm = false;         // Qwen3: RMSNorm of every head of q and k
  bool output_gate = false;     // Qwen3.5: attention's output times a sigmoid; q_proj has the gate's rows too
  bool centred_norm = false;    // Qwen3.5: norm weights lie around zero, the factor is 1 + weight
  std::int64_t rotary_dim = 0;  // of head_dim, the first ones; they are rotated
  std::vector<LayerKind> kinds;   // of each layer; empty: all attention
  DeltaConfig delta;              // of kDelta layers
  std::vector<std::int64_t> eos;  // config.json's, often fewer than generation_config.json's

  LayerKind kind(std::int64_t layer) const {
    return kinds.empty() ? LayerKind::kAttention : kinds[static_cast<std::size_t>(layer)];
  }
  std::int64_t count(LayerKind wanted) const;  // layers
  bool operator==(const ModelConfig&) const = default;
};

// kInvalidArgument: a value that is missing, of a wrong type or senseless.
Result<ModelConfig> parse_model_config(const nlohmann::json& config);

// Rotation per position of each pair of dimensions, `dims` / 2 of them, in float32 as transformers computes
// them (modeling_rope_utils.py; llama3: wavelengths beyond the original context are slowed by `factor`, those
// well inside stay, those between are interpolated).
std::vector<float> rotary_frequencies(const RotaryConfig& rotary, std::int64_t dims);

}  // namespace musacoder::llm
