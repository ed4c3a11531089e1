// The decoder: packed sequences in, hidden states out; with gradients where the weights ask for them.
//
//   MC_ASSIGN_OR_RETURN(Weights weights, Weights::open(dir, {.trainable = true}));
//   const Decoder model(weights);
//   Packed batch = pack({{1, 2, 3}, {4, 5}});
//   PackedAttention attention(batch);
//   at::Tensor h = model.hidden(batch, attention);                    // [5, hidden]
//   at::Tensor lp = token_logprobs(h, model.head(), next_tokens(batch));    // logprobs.h
//
// Sequences lie one behind the other without padding. Only attention knows where each begins; every other
// block works on rows. RMSNorm is computed in float32 and rounded before its weight is applied, rotation in
// the weights' type, as `transformers` does (modeling_llama.py, modeling_qwen2.py, modeling_qwen3.py). Thread
// safety: const.
#pragma once

#include <cstdint>
#include <vector>

#include "llm/model/lora.h"
#include "llm/model/weights.h"
#include "llm/torch.h"

namespace musacoder::llm {

struct Packed {
  at::Tensor ids;                    // [tokens] int64
  at::Tensor positions;              // [tokens] int64, of each token in its sequence
  std::vector<std::int64_t> starts;  // sequence i is rows starts[i] .. starts[i + 1]
};
Packed pack(const std::vector<std::vector<std::int64_t>>& sequences);
// [tokens] int64: each row's next token of its sequence; -1 for the last one.
at::Tensor next_tokens(const Packed& batch);

// What attends: training over whole sequences, or generation over a cache.
class Attention {
 public:
  virtual ~Attention() = default;
  // q [tokens, heads, dim], k and v [tokens, kv_heads, dim], normalised and rotated; gives [tokens, heads,
  // dim].
  virtual at::Tensor attend(std::int64_t layer, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v) = 0;
};

// Causal attention inside each sequence of a packed batch. Differentiable.
class PackedAttention : public Attention {
 public:
  explicit PackedAttention(const Packed& batch) : starts_(batch.starts) {}
  at::Tensor attend(std::int64_t layer, const at::Tensor& q, const at::Tensor& k,
                    const at::Tensor& v) override;

 private:
  std::vector<std::int64_t> starts_;
};

enum class Rows {
  kFast,  // matrix products by the library: quickest, and a row's last bits may depend on how many rows there
          // are
  kIndependent,  // by kernels/cpu_kernels.h: a row's result is the same bits in any company. CPU and
                 // inference only
};

enum class Activations {
  kKeep,
  kRecompute,  // only the layers' inputs are kept for the backward pass; `attention` must live until it is
               // over
};

class Decoder {
 public:
  // With `lora`, its adapters act on the linears they belong to; it need not outlive the decoder.
  explicit Decoder(const Weights& weights, const Lora* lora = nullptr);
  const ModelConfig& config() const { return config_; }
  // [tokens, hidden], after the last norm.
  at::Tensor hidden(const Packed& batch, Attention& attention, Rows rows = Rows::kFast,
                    Activations activations = Activations::kKeep) const;
  // [vocab, hidden]: the output matrix, which may be the embedding.
  const at::Tensor& head() const { return head_; }

 private:
  struct Linear {
    at::Tensor weight, bias;    // bias undefined: none
    at::Tensor lora_a, lora_b;  // undefined: none
    double lora_scale = 1;
  };
  struct Layer {
    at::Tensor input_norm, post_norm, q_norm, k_norm;
    Linear q, k, v, o, gate, up, down;
  };
  at::Tensor linear(const at::Tensor& x, const Linear& by, Rows rows) const;
  at::Tensor norm(const at::Tensor& x, const at::Tensor& weight, Rows rows) const;
  at::Tensor layer(std::int64_t index, const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                   Attention& attention, Rows rows) const;

  ModelConfig config_;
  at::Tensor embedding_, last_norm_, head_, frequencies_;
  std::vector<Layer> layers_;
};

}  // namespace musacoder::llm
