// RMSNorm, alone or of a sum, and its gradient. A row belongs to a warp (up to 1024 columns) or to a block,
// and stays in registers.
#include "llm/kernels/cuda/common.cuh"
#include "llm/kernels/cuda/kernels.h"

namespace musacoder::kernels {
namespace {

constexpr int kBlock = 256;

template <typename T, int kGroup, int kVectors>
__global__ void __launch_bounds__(kBlock)
    norm_forward(const T* x, const T* add, const T* weight, T* sum, T* out, float* scale, std::int64_t rows,
                 int dim, float eps, bool zero_centred) {
  let_next_start();
  wait_for_earlier();
  const std::int64_t row = (static_cast<std::int64_t>(blockIdx.x) * kBlock + threadIdx.x) / kGroup;
  if (row >= rows) return;  // whole warps
  const int lane = threadIdx.x % kGroup;
  float values[kVectors][8];
  float squares = 0;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int column = (i * kGroup + lane) * 8;
    if (column >= dim) continue;
    const Eight<T> in = load8(x + row * dim + column);
#pragma unroll
    for (int e = 0; e < 8; ++e) values[i][e] = wide(in.at[e]);
    if (add) {
      const Eight<T> more = load8(add + row * dim + column);
      Eight<T> both;
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        both.at[e] = narrow<T>(values[i][e] + wide(more.at[e]));
        values[i][e] = wide(both.at[e]);
      }
      store8(sum + row * dim + column, both);
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) squares += values[i][e] * values[i][e];
  }
  const float by = rsqrtf(group_sum<kGroup>(squares) / static_cast<float>(dim) + eps);
  if (scale && lane == 0) scale[row] = by;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int column = (i * kGroup + lane) * 8;
    if (column >= dim) continue;
    const Eight<T> w = load8(weight + column);
    Eight<T> result;
#pragma unroll
    for (int e = 0; e < 8; ++e)
      result.at[e] = narrow<T>(zero_centred ? values[i][e] * by * (1 + wide(w.at[e]))
                                            : rounded<T>(values[i][e] * by) * wide(w.at[e]));
    store8(out + row * dim + column, result);
  }
}

template <typename T, int kGroup, int kVectors>
__global__ void __launch_bounds__(kBlock)
    norm_backward(const T* to_out, const T* to_sum, const T* x, const T* weight, const float* scale, T* to_x,
                  float* to_weight, std::int64_t rows, int dim, bool zero_centred) {
  const std::int64_t group = (static_cast<std::int64_t>(blockIdx.x) * kBlock + threadIdx.x) / kGroup,
                     groups = static_cast<std::int64_t>(gridDim.x) * (kBlock / kGroup);
  const int lane = threadIdx.x % kGroup;
  float sums[kVectors][8] = {};
  for (std::int64_t row = group; row < rows; row += groups) {
    const float by = scale[row];
    float hat[kVectors][8], slope[kVectors][8];
    float dot = 0;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int column = (i * kGroup + lane) * 8;
      if (column >= dim) continue;
      const Eight<T> in = load8(x + row * dim + column), out = load8(to_out + row * dim + column),
                     w = load8(weight + column);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        hat[i][e] = wide(in.at[e]) * by;
        const float given = wide(out.at[e]);
        sums[i][e] += given * hat[i][e];
        slope[i][e] = given * (zero_centred ? 1 + wide(w.at[e]) : wide(w.at[e]));
        dot += slope[i][e] * hat[i][e];
      }
    }
    const float mean = group_sum<kGroup>(dot) / static_cast<float>(dim);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int column = (i * kGroup + lane) * 8;
      if (column >= dim) continue;
      Eight<T> more, result;
      if (to_sum) more = load8(to_sum + row * dim + column);
#pragma unroll
      for (int e = 0; e < 8; ++e)
        result.at[e] = narrow<T>(by * (slope[i][e] - hat[i][e] * mean) + (to_sum ? wide(more.at[e]) : 0.0f));
      store8(to_x + row * dim + column, result);
    }
  }
  // The block's part of the weight's gradient: over its groups, in their order, eight columns to a thread at
  // a time.
  constexpr int kGroups = kBlock / kGroup;
  __shared__ Eight<float> parts[kGroups][kGroups > 1 ? kGroup : 1];
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int column = (i * kGroup + lane) * 8;
    Eight<float> part;
#pragma unroll
    for (int e = 0; e < 8; ++e) part.at[e] = sums[i][e];
    if constexpr (kGroups > 1) {
      __syncthreads();
      parts[threadIdx.x / kGroup][lane] = part;
      __syncthreads();
      if (threadIdx.x >= kGroup) continue;
      for (int g = 1; g < kGroups; ++g)
#pragma unroll
        for (int e = 0; e < 8; ++e) part.at[e] += parts[g][lane].at[e];
    }
    if (column < dim) store8(to_weight + static_cast<std::int64_t>(blockIdx.x) * dim + column, part);
  }
}

int blocks_of(std::int64_t rows, std::int64_t dim) {
  const std::int64_t by = dim <= 1024 ? kBlock / 32 : 1, all = (rows + by - 1) / by;
  return static_cast<int>(all < 528 ? all : 528);
}

// Calls run(std::integral_constant-like group and vectors) for the columns at hand.
template <int kGroup, int kVectors>
struct Shape {
  static constexpr int group = kGroup, vectors = kVectors;
};
template <typename Run>
int for_dim(std::int64_t dim, const Run& run) {
  if (dim % 8 != 0 || dim < 8 || dim > 8192) return cudaErrorInvalidValue;
  if (dim <= 256) return run(Shape<32, 1>());
  if (dim <= 512) return run(Shape<32, 2>());
  if (dim <= 1024) return run(Shape<32, 4>());
  if (dim <= 2048) return run(Shape<256, 1>());
  if (dim <= 4096) return run(Shape<256, 2>());
  return run(Shape<256, 4>());
}

template <typename T>
int forward(const void* x, const void* add, const void* weight, void* sum, void* out, float* scale,
            std::int64_t rows, std::int64_t dim, float eps, bool zero_centred, void* stream) {
  return for_dim(dim, [&](auto shape) {
    using S = decltype(shape);
    const std::int64_t by = kBlock / S::group;
    return launch_chained(norm_forward<T, S::group, S::vectors>,
                          dim3(static_cast<unsigned>((rows + by - 1) / by)), kBlock, stream_of(stream),
                          static_cast<const T*>(x), static_cast<const T*>(add), static_cast<const T*>(weight),
                          static_cast<T*>(sum), static_cast<T*>(out), scale, rows, static_cast<int>(dim), eps,
                          zero_centred);
  });
}

template <typename T>
int backward(const void* to_out, const void* to_sum, const void* x, const void* weight, const float* scale,
             void* to_x, float* to_weight, std::int64_t rows, std::int64_t dim, bool zero_centred,
             void* stream) {
  return for_dim(dim, [&](auto shape) {
    using S = decltype(shape);
    norm_backward<T, S::group, S::vectors><<<blocks_of(rows, dim), kBlock, 0, stream_of(stream)>>>(
        static_cast<const T*>(to_out), static_cast<const T*>(to_sum), static_cast<const T*>(x),
        static_cast<const T*>(weight), scale, static_cast<T*>(to_x), to_weight, rows, static_cast<int>(dim),
        zero_centred);
    return launched();
  });
}

}  // namespace
}  // namespace musacoder::kernels

using namespace musacoder::kernels;

extern "C" int mc_rms_norm_forward(int type, const void* x, const void* add, const void* weight, void* sum,
                                   void* out, float* scale, std::int64_t rows, std::int64_t dim, float eps,
                                   int zero_centred, void* stream) {
  const auto run = type == musacoder::llm::kBF16 ? forward<bf16> : forward<float>;
  return run(x, add, weight, sum, out, scale, rows, dim, eps, zero_centred != 0, stream);
}

extern "C" std::int64_t mc_rms_norm_groups(std::int64_t rows, std::int64_t dim) {
  return blocks_of(rows, dim);
}

extern "C" int mc_rms_norm_backward(int type, const void* to_out, const void* to_sum, const void* x,
                                    const void* weight, const float* scale, void* to_x, float* to_weight,
                                    std::int64_t rows, std::int64_t dim, int zero_centred, void* stream) {
  const auto run = type == musacoder::llm::kBF16 ? backward<bf16> : backward<float>;
  return run(to_out, to_sum, x, weight, scale, to_x, to_weight, rows, dim, zero_centred != 0, stream);
}
