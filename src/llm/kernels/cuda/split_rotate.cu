// Queries, keys and values out of their common product: norms by head, rotation, and the gradient of it all
// in one pass. A head of a row belongs to dim / 16 threads, each with eight neighbours of its first half and
// the eight that they are rotated with.
#include "llm/kernels/cuda/common.cuh"
#include "llm/kernels/cuda/kernels.h"

namespace musacoder::kernels {
namespace {

constexpr int kBlock = 256, kBlocks = 1056;

template <typename T>
struct Heads {
  const T *q_weight, *k_weight, *cos, *sin;
  std::int64_t rows;
  int heads, kv_heads;
  float eps;
  bool zero_centred;
};

struct Pairs {
  float a[8], b[8];
};
template <typename T>
__device__ __forceinline__ Pairs load_pairs(const T* head, int lane, int half) {
  const Eight<T> low = load8(head + lane * 8), high = load8(head + half + lane * 8);
  Pairs out;
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    out.a[e] = wide(low.at[e]);
    out.b[e] = wide(high.at[e]);
  }
  return out;
}
template <typename T>
__device__ __forceinline__ void store_pairs(T* head, int lane, int half, const Pairs& x) {
  Eight<T> low, high;
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    low.at[e] = narrow<T>(x.a[e]);
    high.at[e] = narrow<T>(x.b[e]);
  }
  store8(head + lane * 8, low);
  store8(head + half + lane * 8, high);
}
// Over the threads of a head.
template <int kLanes>
__device__ __forceinline__ float head_sum(float x) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}
template <int kLanes>
__device__ __forceinline__ float head_scale(const Pairs& x, float eps) {
  float squares = 0;
#pragma unroll
  for (int e = 0; e < 8; ++e) squares += x.a[e] * x.a[e] + x.b[e] * x.b[e];
  return rsqrtf(head_sum<kLanes>(squares) / (16 * kLanes) + eps);
}

template <typename T, int kLanes>
__global__ void __launch_bounds__(kBlock) split_forward(Heads<T> by, const T* qkv, T* q, T* k, T* v) {
  constexpr int kDim = 16 * kLanes, kHalf = kDim / 2;
  const int each = by.heads + 2 * by.kv_heads, lane = threadIdx.x % kLanes;
  const std::int64_t items = by.rows * each,
                     mine = static_cast<std::int64_t>(blockIdx.x) * (kBlock / kLanes) + threadIdx.x / kLanes,
                     item = mine < items ? mine : items - 1;  // all of a warp take part in its sums
  const std::int64_t row = item / each;
  const int head = static_cast<int>(item % each);
  const bool is_q = head < by.heads, is_v = head >= by.heads + by.kv_heads;
  Pairs x = load_pairs(qkv + item * kDim, lane, kHalf);
  const float scale = by.q_weight ? head_scale<kLanes>(x, by.eps) : 1.0f;
  if (mine >= items) return;
  if (is_v) {
    store_pairs(v + (row * by.kv_heads + head - by.heads - by.kv_heads) * kDim, lane, kHalf, x);
    return;
  }
  if (const T* weight = is_q ? by.q_weight : by.k_weight) {
    const Pairs w = load_pairs(weight, lane, kHalf);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      if (by.zero_centred) {
        x.a[e] = rounded<T>(x.a[e] * scale * (1 + w.a[e]));
        x.b[e] = rounded<T>(x.b[e] * scale * (1 + w.b[e]));
      } else {
        x.a[e] = rounded<T>(rounded<T>(x.a[e] * scale) * w.a[e]);
        x.b[e] = rounded<T>(rounded<T>(x.b[e] * scale) * w.b[e]);
      }
    }
  }
  const Pairs cos = load_pairs(by.cos + row * kDim, lane, kHalf),
              sin = load_pairs(by.sin + row * kDim, lane, kHalf);
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    const float low = x.a[e] * cos.a[e] - x.b[e] * sin.a[e];
    x.b[e] = x.b[e] * cos.b[e] + x.a[e] * sin.b[e];
    x.a[e] = low;
  }
  store_pairs(is_q ? q + (row * by.heads + head) * kDim : k + (row * by.kv_heads + head - by.heads) * kDim,
              lane, kHalf, x);
}

// The weights' gradients are summed over what a thread sees, then over the block, whose part goes to
// `to_weights`.
template <typename T, int kLanes>
__global__ void __launch_bounds__(kBlock)
    split_backward(Heads<T> by, const T* to_q, const T* to_k, const T* to_v, const T* qkv, T* to_qkv,
                   float* to_weights) {
  constexpr int kDim = 16 * kLanes, kHalf = kDim / 2, kHeads = kBlock / kLanes;
  const int each = by.heads + 2 * by.kv_heads, lane = threadIdx.x % kLanes;
  const std::int64_t items = by.rows * each;
  Pairs sums[2] = {};  // of q and k
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kHeads; first < items;
       first += static_cast<std::int64_t>(gridDim.x) * kHeads) {
    const std::int64_t mine = first + threadIdx.x / kLanes, item = mine < items ? mine : items - 1;
    const bool there = mine < items;
    const std::int64_t row = item / each;
    const int head = static_cast<int>(item % each);
    const bool is_q = head < by.heads, is_v = head >= by.heads + by.kv_heads;
    Pairs g = load_pairs(is_q   ? to_q + (row * by.heads + head) * kDim
                         : is_v ? to_v + (row * by.kv_heads + head - by.heads - by.kv_heads) * kDim
                                : to_k + (row * by.kv_heads + head - by.heads) * kDim,
                         lane, kHalf);
    if (!is_v) {
      const Pairs cos = load_pairs(by.cos + row * kDim, lane, kHalf),
                  sin = load_pairs(by.sin + row * kDim, lane, kHalf);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float low = g.a[e] * cos.a[e] + g.b[e] * sin.b[e];
        g.b[e] = g.b[e] * cos.b[e] - g.a[e] * sin.a[e];
        g.a[e] = low;
      }
    }
    if (by.q_weight) {  // all of a warp take part in the sums, those of values for nothing
      Pairs x = load_pairs(qkv + item * kDim, lane, kHalf);
      const Pairs w = load_pairs(is_q ? by.q_weight : by.k_weight, lane, kHalf);
      const float scale = head_scale<kLanes>(x, by.eps);
      Pairs slope = g;
      float dot = 0;
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        x.a[e] *= scale;
        x.b[e] *= scale;
        const float part_a = there && !is_v ? g.a[e] * x.a[e] : 0.0f,
                    part_b = there && !is_v ? g.b[e] * x.b[e] : 0.0f;
        sums[0].a[e] += is_q ? part_a : 0.0f;
        sums[0].b[e] += is_q ? part_b : 0.0f;
        sums[1].a[e] += is_q ? 0.0f : part_a;
        sums[1].b[e] += is_q ? 0.0f : part_b;
        slope.a[e] *= by.zero_centred ? 1 + w.a[e] : w.a[e];
        slope.b[e] *= by.zero_centred ? 1 + w.b[e] : w.b[e];
        dot += slope.a[e] * x.a[e] + slope.b[e] * x.b[e];
      }
      const float mean = head_sum<kLanes>(dot) / kDim;
      if (!is_v)
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          g.a[e] = scale * (slope.a[e] - x.a[e] * mean);
          g.b[e] = scale * (slope.b[e] - x.b[e] * mean);
        }
    }
    if (there) store_pairs(to_qkv + item * kDim, lane, kHalf, g);
  }
  if (!to_weights) return;
  __shared__ float parts[kHeads][kDim];
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    __syncthreads();
    store_pairs(parts[threadIdx.x / kLanes], lane, kHalf, sums[part]);
    __syncthreads();
    for (int column = threadIdx.x; column < kDim; column += kBlock) {
      float sum = 0;
#pragma unroll
      for (int i = 0; i < kHeads; ++i) sum += parts[i][column];
      to_weights[(static_cast<std::int64_t>(blockIdx.x) * 2 + part) * kDim + column] = sum;
    }
  }
}

int blocks_of(std::int64_t rows) {
  const std::int64_t blocks =
      (rows + 3) / 4;  // a row has three heads at the least; more blocks than work do nothing
  return static_cast<int>(blocks < 1 ? 1 : blocks < kBlocks ? blocks : kBlocks);
}

template <typename T, int kLanes>
int forward(const Heads<T>& by, const void* qkv, void* q, void* k, void* v, void* stream) {
  const std::int64_t items = by.rows * (by.heads + 2 * by.kv_heads), each = kBlock / kLanes;
  split_forward<T, kLanes>
      <<<static_cast<unsigned>((items + each - 1) / each), kBlock, 0, stream_of(stream)>>>(
          by, static_cast<const T*>(qkv), static_cast<T*>(q), static_cast<T*>(k), static_cast<T*>(v));
  return launched();
}
template <typename T, int kLanes>
int backward(const Heads<T>& by, const void* to_q, const void* to_k, const void* to_v, const void* qkv,
             void* to_qkv, float* to_weights, void* stream) {
  split_backward<T, kLanes><<<blocks_of(by.rows), kBlock, 0, stream_of(stream)>>>(
      by, static_cast<const T*>(to_q), static_cast<const T*>(to_k), static_cast<const T*>(to_v),
      static_cast<const T*>(qkv), static_cast<T*>(to_qkv), to_weights);
  return launched();
}

template <typename T>
Heads<T> heads_of(const void* q_weight, const void* k_weight, const void* cos, const void* sin,
                  std::int64_t rows, std::int64_t heads, std::int64_t kv_heads, float eps,
                  bool zero_centred) {
  return {static_cast<const T*>(q_weight),
          static_cast<const T*>(k_weight),
          static_cast<const T*>(cos),
          static_cast<const T*>(sin),
          rows,
          static_cast<int>(heads),
          static_cast<int>(kv_heads),
          eps,
          zero_centred};
}

}  // namespace
}  // namespace musacoder::kernels

using namespace musacoder::kernels;

extern "C" int mc_split_rotate_forward(int type, const void* qkv, const void* q_weight, const void* k_weight,
                                       const void* cos, const void* sin, void* q, void* k, void* v,
                                       std::int64_t rows, std::int64_t heads, std::int64_t kv_heads,
                                       std::int64_t dim, float eps, int zero_centred, void* stream) {
  const auto run = [&]<typename T>(const Heads<T>& by) -> int {
    if (dim == 64) return forward<T, 4>(by, qkv, q, k, v, stream);
    if (dim == 128) return forward<T, 8>(by, qkv, q, k, v, stream);
    if (dim == 256) return forward<T, 16>(by, qkv, q, k, v, stream);
    return cudaErrorInvalidValue;
  };
  if (type == musacoder::llm::kBF16)
    return run(heads_of<bf16>(q_weight, k_weight, cos, sin, rows, heads, kv_heads, eps, zero_centred != 0));
  return run(heads_of<float>(q_weight, k_weight, cos, sin, rows, heads, kv_heads, eps, zero_centred != 0));
}

extern "C" std::int64_t mc_split_rotate_groups(std::int64_t rows) { return blocks_of(rows); }

extern "C" int mc_split_rotate_backward(int type, const void* to_q, const void* to_k, const void* to_v,
                                        const void* qkv, const void* q_weight, const void* k_weight,
                                        const void* cos, const void* sin, void* to_qkv, float* to_weights,
                                        std::int64_t rows, std::int64_t heads, std::int64_t kv_heads,
                                        std::int64_t dim, float eps, int zero_centred, void* stream) {
  const auto run = [&]<typename T>(const Heads<T>& by) -> int {
    if (dim == 64) return backward<T, 4>(by, to_q, to_k, to_v, qkv, to_qkv, to_weights, stream);
    if (dim == 128) return backward<T, 8>(by, to_q, to_k, to_v, qkv, to_qkv, to_weights, stream);
    if (dim == 256) return backward<T, 16>(by, to_q, to_k, to_v, qkv, to_qkv, to_weights, stream);
    return cudaErrorInvalidValue;
  };
  if (type == musacoder::llm::kBF16)
    return run(heads_of<bf16>(q_weight, k_weight, cos, sin, rows, heads, kv_heads, eps, zero_centred != 0));
  return run(heads_of<float>(q_weight, k_weight, cos, sin, rows, heads, kv_heads, eps, zero_centred != 0));
}
