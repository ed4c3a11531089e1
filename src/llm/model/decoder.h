// The decoder: packed sequences in, hidden states out; with gradients where the weights ask for them.
//
//   MC_ASSIGN_OR_RETURN(Weights weights, Weights::open(dir, {.trainable = true}));
//   const Decoder model(weights);
//   Packed batch = pack({{1, 2, 3}, {4, 5}});
//   PackedAttention attention(batch);
//   at::Tensor h = model.hidden(batch, attention);                    // [5, hidden]
//   at::Tensor lp = token_logprobs(h, model.head(), next_tokens(batch));    // logprobs.h
//
// Layers are assembled from blocks.h, and those from ops.h. Only attention.h knows where each sequence
// begins. Thread safety: const.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "llm/model/blocks.h"

namespace musacoder::llm {

enum class Activations {
  kKeep,
  kRecompute,  // only the layers' inputs are kept for the backward pass; `attention` must live until it is
               // over
};

// Told when a layer is computed: forwards, and once more where it is recomputed. Between the two its weights
// must be there.
class LayerObserver {
 public:
  virtual ~LayerObserver() = default;
  virtual void enter(std::int64_t layer) = 0;
  virtual void leave(std::int64_t layer) = 0;
};

class Decoder {
 public:
  // With `lora`, its adapters act on the linears they belong to; it need not outlive the decoder.
  explicit Decoder(const Weights& weights, const Lora* lora = nullptr);
  const ModelConfig& config() const { return config_; }
  // [tokens, hidden], after the last norm.
  at::Tensor hidden(const Packed& batch, Attention& attention, Rows rows = Rows::kFast,
                    Activations activations = Activations::kKeep, LayerObserver* observer = nullptr) const;
  // [vocab, hidden]: the output matrix, which may be the embedding.
  const at::Tensor& head() const { return head_; }

 private:
  struct Layer {
    Norm input_norm, post_norm;
    std::variant<AttentionBlock, DeltaBlock> mixer;
    MlpBlock mlp;
  };
  // The residual stream, as two parts until the next norm adds them; `more` undefined: one part.
  struct Stream {
    at::Tensor sum, more;
  };
  Stream layer(std::int64_t index, const Stream& in, const Context& context) const;
  NormedSum enter(const Stream& in, const Norm& norm, Rows rows) const;

  ModelConfig config_;
  at::Tensor embedding_, head_, frequencies_;
  Norm last_norm_;
  std::vector<Layer> layers_;
};

}  // namespace musacoder::llm
