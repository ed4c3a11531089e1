// The fused kernels as differentiable operations on CUDA tensors, and attention over packed sequences there.
//
//   const auto [sum, normed] = fused_add_rms_norm(x, y, {.weight = w, .eps = 1e-6});
//   at::Tensor qkv = joined_linear(normed, {q_weight, k_weight, v_weight}, {});
//   const auto [q, k, v] = fused_split_rotate(qkv, {8, 4, 64}, q_norm, k_norm, cos, sin);
//   at::Tensor seen = flash_attention(q, k, v, starts, longest);
//
// For tensors of which fused_on() is true. Each is what model/ops.h says of the operation it stands for,
// within rounding: sums and what lies between two kernels of the reference are in float32.
#pragma once

#include <vector>

#include "llm/torch.h"

namespace musacoder::llm {

struct FusedNorm {
  at::Tensor weight;  // [dim]; undefined: no norm
  double eps = 1e-6;
  bool zero_centred = false;  // 1 + weight, multiplied before rounding
};
// Sizes that the kernel takes: dim a multiple of 8 up to 8192.
bool fused_norm_takes(std::int64_t dim);
at::Tensor fused_rms_norm(const at::Tensor& x, const FusedNorm& by);
struct FusedSum {
  at::Tensor sum, normed;
};
FusedSum fused_add_rms_norm(const at::Tensor& x, const at::Tensor& y, const FusedNorm& by);

struct HeadShape {
  std::int64_t heads = 0, kv_heads = 0, dim = 0;
};
bool fused_rotate_takes(std::int64_t dim);  // 64, 128, 256
struct SplitHeads {
  at::Tensor q, k, v;  // [rows, heads, dim], [rows, kv_heads, dim] twice
};
// qkv [rows, (heads + 2 kv_heads) dim]; cos, sin [rows, 1, dim] of its type.
SplitHeads fused_split_rotate(const at::Tensor& qkv, const HeadShape& shape, const FusedNorm& q_norm,
                              const FusedNorm& k_norm, const at::Tensor& cos, const at::Tensor& sin);

// gate_up [rows, 2 inner], gate first; inner a multiple of 8.
at::Tensor fused_swiglu(const at::Tensor& gate_up);

// Whether the matrices [out, in] lie one behind the other in one storage, as Weights::open() places them on
// CUDA.
bool joinable(const std::vector<at::Tensor>& weights);
// x [rows, in] by all of them in one product: [rows, sum of out]. `biases`: empty, or one of each weight.
at::Tensor joined_linear(const at::Tensor& x, const std::vector<at::Tensor>& weights,
                         const std::vector<at::Tensor>& biases);

// Causal attention inside each sequence, by libtorch's flash attention, or cuDNN's where all are of one
// length (a multiple of 64). bf16 or f16, dim a multiple of 8 up to 256. `starts` [sequences + 1] int32 on
// the device, `longest` the longest sequence's length.
bool flash_takes(const at::Tensor& q);
at::Tensor flash_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const at::Tensor& starts, std::int64_t longest);

}  // namespace musacoder::llm
