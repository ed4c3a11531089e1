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

struct CpuKernels {
  const char* name;
  // y[r * stride + n] = sum over k of x[r * in + k] * w[n * in + k], for n in [from, to).
  void (*linear_f32)(const float* x, std::int64_t rows, std::int64_t in, const float* w, std::int64_t from,
                     std::int64_t to, float* y, std::int64_t stride);
  void (*linear_bf16)(const float* x, std::int64_t rows, std::int64_t in, const std::uint16_t* w,
                      std::int64_t from, std::int64_t to, float* y, std::int64_t stride);
  // out[r] = sum over k of x[r * dim + k]^2
  void (*square_sums)(const float* x, std::int64_t rows, std::int64_t dim, float* out);
  // Softmax attention of one token's query heads over `length` cached positions, in the order of positions.
  void (*attend_f32)(const AttendArgs& args);
  void (*attend_bf16)(const AttendArgs& args);
};

// For this processor.
const CpuKernels& cpu_kernels();
// nullptr: this processor cannot run it. Names: avx512, avx2, base.
const CpuKernels* cpu_kernels_named(const char* name);

}  // namespace musacoder::llm
