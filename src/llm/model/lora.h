// Low-rank adapters (LoRA, https://arxiv.org/abs/2106.09685) on any linear of the decoder: y = W x + alpha /
// rank * B A x.
//
//   MC_ASSIGN_OR_RETURN(Lora lora, Lora::create(weights, {.rank = 16, .alpha = 32, .targets = {"q_proj",
//   "v_proj"}})); const Decoder model(weights, &lora);                // W stays as it is, on the mapped file
//   AdamW optimizer(lora.parameters(), {});
//   MC_RETURN_IF_ERROR(lora.save("out/adapter"));       // reads in PyPI peft and vLLM
//   MC_ASSIGN_OR_RETURN(Weights whole, merged(weights, lora));    // one model without adapters
//
// Folders are those of peft: adapter_config.json, adapter_model.safetensors. A begins as peft's does (uniform
// in
// +-1 / sqrt(in)), B at zero, so a new adapter changes nothing. Adapters are float32.
// Errors: kInvalidArgument (a target that no linear has, shapes that do not fit, a tensor without its
// partner), kUnsupported (rsLoRA, DoRA, biases, patterns: whatever would change the numbers and is not
// built).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "llm/model/weights.h"
#include "llm/torch.h"

namespace musacoder::llm {

struct LoraConfig {
  std::int64_t rank = 8;
  double alpha = 16;
  std::vector<std::string> targets = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                      "gate_proj", "up_proj", "down_proj"};
  std::uint64_t seed = 0;  // of A, in create()
};

class Lora {
 public:
  struct Pair {
    at::Tensor a, b;  // [rank, in], [out, rank]
  };
  static Result<Lora> create(const Weights& weights, const LoraConfig& config);
  static Result<Lora> open(const Weights& weights, const std::string& folder);
  Status save(const std::string& folder) const;

  const LoraConfig& config() const { return config_; }
  double scale() const { return config_.alpha / static_cast<double>(config_.rank); }
  // nullptr: this linear has none. `linear`: "model.layers.0.self_attn.q_proj".
  const Pair* find(const std::string& linear) const;
  // Names as in the file, in its order, and their tensors; all require gradients.
  std::vector<std::string> names() const;
  std::vector<at::Tensor> parameters() const;

 private:
  LoraConfig config_;
  std::map<std::string, Pair> pairs_;
};

// The weights with the adapters added to the matrices they belong to: W + alpha / rank B A, computed in
// float32 and rounded once to W's type. Those matrices are new tensors; all others are shared, and `weights`
// stays as it is. What adapters kept apart add is rounded where it is added to a row; here it is rounded
// where it is added to the weight, which in bf16 loses of a small update what lies below the weight's last
// bit. In float32 the two differ by rounding of sums only. kUnsupported: adapters on packed weights.
Result<Weights> merged(const Weights& weights, const Lora& lora);

}  // namespace musacoder::llm
