// What the decoder's blocks are made of: each operation is one function, whatever computes it.
//
//   at::Tensor in = rms_norm(x, layer.input_norm, rows);
//   at::Tensor q = linear(in, block.q, rows);
//   const auto [sum, normed] = add_rms_norm(x, mixed, layer.post_norm, rows);
//
// A faster path of an operation belongs behind its function here, so that blocks name no device. All are
// differentiable with Rows::kFast. Types are those of `transformers` (modeling_llama.py, modeling_qwen3.py,
// modeling_qwen3_5.py):
// RMSNorm in float32, rounded before its weight is applied; rotation in x's type.
#pragma once

#include "llm/torch.h"

namespace musacoder::llm {

enum class Rows {
  kFast,  // matrix products by the library: quickest, and a row's last bits may depend on how many rows there
          // are
  kIndependent,  // by kernels/cpu_kernels.h: a row's result is the same bits in any company. CPU and
                 // inference only
};

// What sums and functions are computed in: float32, but float64 stays, so that the formulas can be compared
// without rounding in between.
inline at::Tensor widened(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
}

struct Linear {
  at::Tensor weight, bias;    // [out, in], [out]; bias undefined: none
  at::Tensor lora_a, lora_b;  // [rank, in], [out, rank]; undefined: none
  double lora_scale = 1;
};
// x [rows, in] -> [rows, out]
at::Tensor linear(const at::Tensor& x, const Linear& by, Rows rows);

struct Norm {
  at::Tensor weight;  // [dim]
  double eps = 1e-6;
  bool centred = false;  // the factor is 1 + weight, and the product is rounded, not what is multiplied
};
// Over the last dimension of x [..., dim].
at::Tensor rms_norm(const at::Tensor& x, const Norm& by, Rows rows);

struct NormedSum {
  at::Tensor sum, normed;
};
// x + y, and the norm of it: a residual and what the next block reads.
NormedSum add_rms_norm(const at::Tensor& x, const at::Tensor& y, const Norm& by, Rows rows);

// cos, sin [tokens, 1, dims] in the type of what is rotated: of each token's angles, repeated for the second
// half.
struct Rotary {
  at::Tensor cos, sin;
  Rows rows = Rows::kFast;
};
// `positions` [tokens] int64, `frequencies` [dims / 2] float32.
Rotary rotary(const at::Tensor& positions, const at::Tensor& frequencies, at::ScalarType type, Rows rows);

struct QueryKey {
  at::Tensor q, k;
};
// The halves (a, b) of each head's first `dims` become (a cos - b sin, b cos + a sin). q [tokens, heads,
// dim], k [tokens, kv_heads, dim].
QueryKey rotate(const at::Tensor& q, const at::Tensor& k, const Rotary& by);

// silu(gate) * up
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up, Rows rows);

// x * sigmoid(gate)
at::Tensor sigmoid_gate(const at::Tensor& x, const at::Tensor& gate, Rows rows);

// The norm of x times silu(gate), both [..., dim]; silu and the product in float32.
at::Tensor gated_rms_norm(const at::Tensor& x, const at::Tensor& gate, const Norm& by, Rows rows);

// A DeltaNet head's log decay, -exp(a_log) * softplus(a + bias), float32. a [tokens, heads], the others
// [heads].
at::Tensor delta_decay(const at::Tensor& a, const at::Tensor& a_log, const at::Tensor& bias, Rows rows);
at::Tensor sigmoid(const at::Tensor& x, Rows rows);

}  // namespace musacoder::llm
