// What looks across rows: attention, over whole sequences in training or over a cache in generation.
//
//   PackedAttention attention(batch);
//   at::Tensor h = decoder.hidden(batch, attention);
//
// Every other part of the decoder works on rows by themselves, so this interface alone knows where sequences
// begin.
#pragma once

#include <cstdint>
#include <vector>

#include "llm/model/packed.h"
#include "llm/torch.h"

namespace musacoder::llm {

class Attention {
 public:
  virtual ~Attention() = default;
  // q [tokens, heads, dim], k and v [tokens, kv_heads, dim], normalised and rotated; gives [tokens, heads,
  // dim].
  virtual at::Tensor attend(std::int64_t layer, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v) = 0;
};

// Causal attention inside each sequence of a packed batch. Differentiable. On a GPU all sequences go at once,
// in bf16 and float16.
class PackedAttention : public Attention {
 public:
  explicit PackedAttention(const Packed& batch);
  at::Tensor attend(std::int64_t layer, const at::Tensor& q, const at::Tensor& k,
                    const at::Tensor& v) override;

 private:
  std::vector<std::int64_t> starts_;
  at::Tensor device_starts_;  // int32, on a GPU
  std::int64_t longest_ = 0;
};

}  // namespace musacoder::llm
