// C entry points of the CUDA kernels, built by nvcc into libmusacoder_llm_cuda.so and loaded with CUDA only.
//
//   const CudaKernels& run = cuda_kernels();                     // load.h; the library must have been loaded
//   run.mc_swiglu_forward(kBF16, gate_up, out, rows, inner, stream);
//
// Pointers are of device memory, tensors contiguous and row-major, `stream` a cudaStream_t; nothing waits for
// the device. `type` is that of every tensor said to be T. Each returns a cudaError_t (0: launched), and
// cudaErrorInvalidValue for sizes it has no kernel for. The reference of each is the torch code of its
// operation in model/ops.cpp and model/logprobs.cpp, and the sums are in float32. What is in bench/llm and
// tests/python/test_llm_cuda_kernels.py calls them through torch and through MooreEval.
#pragma once

#ifdef __cplusplus
#include <cstdint>
#else
#include <stdint.h>
#endif

namespace musacoder::llm {
enum KernelType : int { kF32 = 0, kBF16 = 1 };

// One tensor of an AdamW step, in device memory. `master` null: the parameter is float32 and its own master.
struct AdamWTensor {
  void* parameter;       // T
  const void* gradient;  // T
  float* master;
  float* first;
  float* second;
  std::int64_t count;
  std::int64_t first_block;  // of the launch: tensors take ceil(count / kAdamWBlock) blocks each, in order
};
inline constexpr std::int64_t kAdamWBlock = 8192;
}  // namespace musacoder::llm

extern "C" {
#pragma GCC visibility push(default)
const char* mc_cuda_error_text(int error);

// RMSNorm over rows of `dim` (a multiple of 8, at most 8192). With `add` (else null) the norm is of x + add,
// rounded to T and written to `sum`. `scale` [rows] float32: 1 / root mean square. Zero-centred weights count
// as 1 + w, and are multiplied before rounding.
int mc_rms_norm_forward(int type, const void* x, const void* add, const void* weight, void* sum, void* out,
                        float* scale, std::int64_t rows, std::int64_t dim, float eps, int zero_centred,
                        void* stream);
// `x`: what was normed. `to_sum` (may be null) is added to `to_x`. `to_weight` [groups, dim] float32: parts
// of the weight's gradient, to be summed over groups = mc_rms_norm_groups(rows, dim).
std::int64_t mc_rms_norm_groups(std::int64_t rows, std::int64_t dim);
int mc_rms_norm_backward(int type, const void* to_out, const void* to_sum, const void* x, const void* weight,
                         const float* scale, void* to_x, float* to_weight, std::int64_t rows,
                         std::int64_t dim, int zero_centred, void* stream);

// out [columns] of T: the sums over the rows of `parts` [rows, columns] float32.
int mc_column_sums(int type, const float* parts, void* out, std::int64_t rows, std::int64_t columns,
                   void* stream);

// qkv [rows, (heads + 2 kv_heads) dim] -> q [rows, heads, dim], k and v [rows, kv_heads, dim]; q and k normed
// by head (weights [dim], null: not) and rotated by cos, sin [rows, dim] of T. dim: 64, 128 or 256.
int mc_split_rotate_forward(int type, const void* qkv, const void* q_weight, const void* k_weight,
                            const void* cos, const void* sin, void* q, void* k, void* v, std::int64_t rows,
                            std::int64_t heads, std::int64_t kv_heads, std::int64_t dim, float eps,
                            int zero_centred, void* stream);
// to_weights [groups, 2, dim] float32 (q's, k's), groups = mc_split_rotate_groups(); null without norms.
std::int64_t mc_split_rotate_groups(std::int64_t rows);
int mc_split_rotate_backward(int type, const void* to_q, const void* to_k, const void* to_v, const void* qkv,
                             const void* q_weight, const void* k_weight, const void* cos, const void* sin,
                             void* to_qkv, float* to_weights, std::int64_t rows, std::int64_t heads,
                             std::int64_t kv_heads, std::int64_t dim, float eps, int zero_centred,
                             void* stream);

// gate_up [rows, 2 inner] -> silu(gate) up [rows, inner]; inner a multiple of 8.
int mc_swiglu_forward(int type, const void* gate_up, void* out, std::int64_t rows, std::int64_t inner,
                      void* stream);
int mc_swiglu_backward(int type, const void* to_out, const void* gate_up, void* to_gate_up, std::int64_t rows,
                       std::int64_t inner, void* stream);

// logits [rows, vocab] of T, divided by temperature (its inverse is given): log of the sum of exponentials,
// and the target's log-probability (0 where the target is negative).
int mc_logprob_forward(int type, const void* logits, const std::int64_t* targets, float* log_sum,
                       float* logprob, std::int64_t rows, std::int64_t vocab, float inverse_temperature,
                       void* stream);
// In place: logits become their gradient, given that of the log-probabilities.
int mc_logprob_backward(int type, void* logits, const std::int64_t* targets, const float* log_sum,
                        const float* to_logprob, std::int64_t rows, std::int64_t vocab,
                        float inverse_temperature, void* stream);

// Global 2-norm of all gradients: partial [blocks] float32 is scratch, `norm` one float.
int mc_gradient_norm(int type, const musacoder::llm::AdamWTensor* tensors, std::int64_t count,
                     std::int64_t blocks, float* partial, float* norm, void* stream);
// One step. Gradients are scaled by min(1, limit / (norm + 1e-6)) when `norm` is not null.
int mc_adamw(int type, const musacoder::llm::AdamWTensor* tensors, std::int64_t count, std::int64_t blocks,
             const float* norm, float limit, float learning_rate, float beta1, float beta2, float epsilon,
             float weight_decay, float correction1, float correction2_root, void* stream);
#pragma GCC visibility pop
}
