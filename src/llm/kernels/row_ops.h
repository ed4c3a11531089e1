// Products and attention on the CPU whose result for one row does not depend on the rows beside it, not to
// the last bit.
//
//   at::Tensor y = row_linear(x, weight, bias, at::kFloat);     // x [rows, in], weight [out, in]
//
// Library products choose their order of summation by the number of rows, so a token's probabilities would
// change with the requests that happen to be decoded beside it. Here every element is summed in an order
// given by the inner length alone. Sums are in float32, weights float32 or bfloat16 (float16 is converted
// first), or packed (below); results are rounded once. The reference is at::linear. What runs is chosen by
// the processor (AVX-512, AVX2 with FMA, else SSE2); results differ between these.
#pragma once

#include "llm/torch.h"

namespace musacoder::llm {

// Packed weights stay in ggml's blocks: uint8 [out, blocks of a row, bytes of a block]. The bytes of a block
// tell the type (llm/checkpoint/gguf_quants.h): 18 Q4_0, 20 Q4_1, 34 Q8_0, 144 Q4_K, 210 Q6_K. They give the
// same bits as their values in float32.
inline bool is_packed(const at::Tensor& weight) {
  return weight.scalar_type() == at::kByte && weight.dim() == 3;
}
// Elements of a row, of packed weights and others.
std::int64_t in_features(const at::Tensor& weight);
// Packed: float32 [out, in].
at::Tensor unpacked(const at::Tensor& weight);

// `bias` may be undefined. Inference only: no gradient is recorded.
at::Tensor row_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      at::ScalarType out);

// at::embedding(weight, ids); of packed weights in float32.
at::Tensor row_embedding(const at::Tensor& weight, const at::Tensor& ids);

// weight * (x / sqrt(mean of squares + eps)) over the last dimension, the bracket rounded to x's type.
at::Tensor row_rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

// silu(gate) * up, the former rounded to the type.
at::Tensor row_swiglu(const at::Tensor& gate, const at::Tensor& up);

// x [rows, heads, dim]; cos, sin [rows, 1, turned] of its type, for the first `turned` of each head.
at::Tensor row_rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin);

// x [..., dim] of any type, contiguous or not: 1 / sqrt(mean of squares + eps), [..., 1] in float32.
at::Tensor row_scale(const at::Tensor& x, double eps);

// x / (1 + exp(-x)), rounded to x's type. (The library computes a tensor's last elements by other code than
// the rest.)
at::Tensor row_silu(const at::Tensor& x);

// Cosines and sines, float32 [rows, 2 * pairs], of each position's angles, which are repeated for the second
// half of a head.
struct Rotation {
  at::Tensor cos, sin;
};
Rotation row_rotation(const at::Tensor& positions, const at::Tensor& frequencies);

}  // namespace musacoder::llm
