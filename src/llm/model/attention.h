// What looks across rows: attention and the delta rule, over whole sequences in training, over a cache and
// states in generation.
//
//   PackedAttention attention(batch);
//   at::Tensor h = decoder.hidden(batch, attention);
//
// Every other part of the decoder works on rows by themselves, so this interface alone knows where sequences
// begin.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "llm/model/config.h"
#include "llm/model/delta_rule.h"
#include "llm/model/packed.h"
#include "llm/torch.h"

namespace musacoder::llm {

// What a DeltaNet layer's projections give.
struct DeltaInput {
  const DeltaConfig& sizes;
  at::Tensor mixed, taps;  // [tokens, channels]: q, k and v before the convolution; [channels, kernel]
  at::Tensor decay, beta;  // [tokens, value_heads] float32
};

class Attention {
 public:
  virtual ~Attention() = default;
  // q [tokens, heads, dim], k and v [tokens, kv_heads, dim], normalised and rotated; gives [tokens, heads,
  // dim].
  virtual at::Tensor attend(std::int64_t layer, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v) = 0;
  // Convolution, SiLU and delta rule: [tokens, value_heads, value_dim] in the type of `mixed`.
  virtual at::Tensor delta(std::int64_t layer, const DeltaInput& input);
};

// Inside each sequence of a packed batch. Differentiable. On a GPU all sequences' attention goes at once, in
// bf16 and float16.
class PackedAttention : public Attention {
 public:
  explicit PackedAttention(const Packed& batch);
  at::Tensor attend(std::int64_t layer, const at::Tensor& q, const at::Tensor& k,
                    const at::Tensor& v) override;
  at::Tensor delta(std::int64_t layer, const DeltaInput& input) override;

 private:
  std::vector<std::int64_t> starts_;
  at::Tensor device_starts_;  // int32, on a GPU
  std::int64_t longest_ = 0;
  std::optional<DeltaChunks> chunks_;
};

}  // namespace musacoder::llm
