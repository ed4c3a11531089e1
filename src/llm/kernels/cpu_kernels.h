// The inner loops of row_ops.h, compiled once for each instruction set; plain pointers, no library.
//
//   const CpuKernels& run = cpu_kernels();
//   run.linear_f32(x, rows, in, weight, 0, out_features, y, out_features);
//
// Thread safety: pure functions; callers give disjoint output ranges to their threads.
#pragma once

#include <cstdint>

namespace musacoder::llm {

struct AttendArgs {
  const float* q;              // [group, dim], already scaled
  const void* const* k_pages;  // each [page, dim] of the row's kv head
  const void* const* v_pages;
  std::int64_t length, page, dim, group;
  float* scores;  // room for group * length
  float* out;     // [group, dim]
};

// Weights that stay in ggml's blocks (llm/checkpoint/gguf_quants.h), with the bytes of a block.
enum class PackedKind { kQ4_0, kQ4_1, kQ8_0, kQ4K, kQ6K };
inline constexpr int kPackedKinds = 5;

struct CpuKernels {
  const char* name;
  // y[r * stride + n] = sum over k of x[r * in + k] * w[n * in + k], for n in [from, to).
  void (*linear_f32)(const float* x, std::int64_t rows, std::int64_t in, const float* w, std::int64_t from,
                     std::int64_t to, float* y, std::int64_t stride);
  void (*linear_bf16)(const float* x, std::int64_t rows, std::int64_t in, const std::uint16_t* w,
                      std::int64_t from, std::int64_t to, float* y, std::int64_t stride);
  // The same, to the bit, as linear_f32 with the blocks' values as float32: they are unpacked in registers
  // and summed in the same order. By PackedKind; `w`: rows of whole blocks.
  void (*linear_packed[kPackedKinds])(const float* x, std::int64_t rows, std::int64_t in,
                                      const std::uint8_t* w, std::int64_t from, std::int64_t to, float* y,
                                      std::int64_t stride);
  // Values of `count` elements, whole blocks.
  void (*unpack[kPackedKinds])(const std::uint8_t* w, std::int64_t count, float* out);
  // out[r] = sum over k of x[r * dim + k]^2
  void (*square_sums)(const float* x, std::int64_t rows, std::int64_t dim, float* out);
  // The largest; count >= 1.
  float (*maximum)(const float* x, std::int64_t count);
  // out[i] = exp((x[i] - top) * scale), and their sum; `scale` is finite and not negative. Relative error of
  // each below 3e-7 (measured); 0 where the exponent is below -87.
  float (*exponentials)(const float* x, std::int64_t count, float top, float scale, float* out);
  // out[r] = weight * (x[r] / sqrt(mean of squares + eps)), the bracket rounded to the type first.
  void (*rms_norm_f32)(const float* x, std::int64_t rows, std::int64_t dim, const float* weight, float eps,
                       float* out);
  void (*rms_norm_bf16)(const std::uint16_t* x, std::int64_t rows, std::int64_t dim,
                        const std::uint16_t* weight, float eps, std::uint16_t* out);
  // out = silu(gate) * up, silu rounded to the type first.
  void (*swiglu_f32)(const float* gate, const float* up, std::int64_t count, float* out);
  void (*swiglu_bf16)(const std::uint16_t* gate, const std::uint16_t* up, std::int64_t count,
                      std::uint16_t* out);
  // The first `turned` elements of each of a row's heads: halves (a, b) become (a cos - b sin, b cos + a
  // sin), every operation rounded to the type. cos, sin [rows, turned]; x and out [rows, heads, dim].
  void (*rotate_f32)(const float* x, std::int64_t rows, std::int64_t heads, std::int64_t dim,
                     std::int64_t turned, const float* cos, const float* sin, float* out);
  void (*rotate_bf16)(const std::uint16_t* x, std::int64_t rows, std::int64_t heads, std::int64_t dim,
                      std::int64_t turned, const std::uint16_t* cos, const std::uint16_t* sin,
                      std::uint16_t* out);
  // Softmax attention of one token's query heads over `length` cached positions, in the order of positions.
  void (*attend_f32)(const AttendArgs& args);
  void (*attend_bf16)(const AttendArgs& args);
};

// For this processor.
const CpuKernels& cpu_kernels();
// nullptr: this processor cannot run it. Names: avx512, avx2, base.
const CpuKernels* cpu_kernels_named(const char* name);

}  // namespace musacoder::llm
