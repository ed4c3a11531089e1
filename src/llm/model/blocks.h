// The decoder's blocks: a layer is a mixer, which looks across rows, and an MLP, each behind its norm.
//
//   const Loader load(weights, lora, "model.layers.0.");
//   const AttentionBlock mixer(config, load);
//   at::Tensor y = mixer.run(0, in, context);        // in, y [tokens, hidden]
//
// A new kind of layer is a block with the same run(), and a branch in Decoder's constructor.
#pragma once

#include <cstdint>
#include <string>

#include "llm/model/attention.h"
#include "llm/model/lora.h"
#include "llm/model/ops.h"
#include "llm/model/weights.h"

namespace musacoder::llm {

// Tensors of one part of the model, by the end of their names.
class Loader {
 public:
  Loader(const Weights& weights, const Lora* lora, std::string prefix)
      : weights_(weights), lora_(lora), prefix_(std::move(prefix)) {}
  // Undefined: the model has none of this name.
  at::Tensor tensor(const std::string& name) const;
  // `name` without ".weight"; with its adapter, where there is one.
  Linear linear(const std::string& name) const;
  Norm norm(const std::string& name) const;  // as the family has it

 private:
  const Weights& weights_;
  const Lora* lora_;
  std::string prefix_;
};

// What the blocks of one pass share.
struct Context {
  Rotary rotary;
  Attention& attention;
  Rows rows;
};

class AttentionBlock {
 public:
  AttentionBlock(const ModelConfig& config, const Loader& load);
  at::Tensor run(std::int64_t layer, const at::Tensor& in, const Context& context) const;

 private:
  std::int64_t heads_, kv_heads_, dim_;
  bool qk_norm_, gated_;
  Linear q_, k_, v_, o_;
  Norm q_norm_, k_norm_;
};

// Gated DeltaNet.
class DeltaBlock {
 public:
  DeltaBlock(const ModelConfig& config, const Loader& load);
  at::Tensor run(std::int64_t layer, const at::Tensor& in, const Context& context) const;

 private:
  DeltaConfig sizes_;
  Linear qkv_, z_, a_, b_, out_;
  at::Tensor taps_, a_log_, bias_;
  Norm norm_;
};

class MlpBlock {
 public:
  explicit MlpBlock(const Loader& load);
  at::Tensor run(const at::Tensor& in, const Context& context) const;

 private:
  Linear gate_, up_, down_;
};

}  // namespace musacoder::llm
