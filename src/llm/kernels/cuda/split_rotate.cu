// Queries, keys and values out of their common product: norms by head, rotation, and the gradient of it all
// in one pass. A warp takes one head of one row at a time; lane l holds elements of both halves of the head,
// so that a rotation's pair is in one lane.
#include "llm/kernels/cuda/common.cuh"
#include "llm/kernels/cuda/kernels.h"

namespace musacoder::kernels {
namespace {

constexpr int kBlock = 256, kWarps = kBlock / 32, kBlocks = 1056;

template <typename T>
struct Heads {
  const T *q_weight, *k_weight, *cos, *sin;
  std::int64_t rows;
  int heads, kv_heads;
  float eps;
  bool zero_centred;
};

// kPairs = dim / 64: of lane's pairs (a[i], b[i]), a at lane + 32 i, b half a head further.
template <typename T, int kPairs>
__device__ __forceinline__ void load_pairs(const T* head, int lane, float (&a)[kPairs], float (&b)[kPairs]) {
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    a[i] = wide(head[lane + 32 * i]);
    b[i] = wide(head[lane + 32 * (i + kPairs)]);
  }
}
template <typename T, int kPairs>
__device__ __forceinline__ void store_pairs(T* head, int lane, const float (&a)[kPairs],
                                            const float (&b)[kPairs]) {
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    head[lane + 32 * i] = narrow<T>(a[i]);
    head[lane + 32 * (i + kPairs)] = narrow<T>(b[i]);
  }
}
template <int kPairs>
__device__ __forceinline__ float head_scale(const float (&a)[kPairs], const float (&b)[kPairs], float eps) {
  float squares = 0;
#pragma unroll
  for (int i = 0; i < kPairs; ++i) squares += a[i] * a[i] + b[i] * b[i];
  return rsqrtf(warp_sum(squares) / (64 * kPairs) + eps);
}

template <typename T, int kPairs>
__global__ void __launch_bounds__(kBlock)
    split_forward(Heads<T> by, const T* qkv, T* q, T* k, T* v) {
  constexpr int kDim = 64 * kPairs;
  const int each = by.heads + 2 * by.kv_heads, lane = threadIdx.x % 32;
  const std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (item >= by.rows * each) return;
  const std::int64_t row = item / each;
  const int head = static_cast<int>(item % each);
  float a[kPairs], b[kPairs];
  load_pairs<T, kPairs>(qkv + item * kDim, lane, a, b);
  if (head >= by.heads + by.kv_heads) {
    store_pairs<T, kPairs>(v + (row * by.kv_heads + head - by.heads - by.kv_heads) * kDim, lane, a, b);
    return;
  }
  const bool is_q = head < by.heads;
  if (const T* weight = is_q ? by.q_weight : by.k_weight) {
    const float scale = head_scale<kPairs>(a, b, by.eps);
    float wa[kPairs], wb[kPairs];
    load_pairs<T, kPairs>(weight, lane, wa, wb);
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      if (by.zero_centred) {
        a[i] = rounded<T>(a[i] * scale * (1 + wa[i]));
        b[i] = rounded<T>(b[i] * scale * (1 + wb[i]));
      } else {
        a[i] = rounded<T>(rounded<T>(a[i] * scale) * wa[i]);
        b[i] = rounded<T>(rounded<T>(b[i] * scale) * wb[i]);
      }
    }
  }
  float ca[kPairs], cb[kPairs], sa[kPairs], sb[kPairs];
  load_pairs<T, kPairs>(by.cos + row * kDim, lane, ca, cb);
  load_pairs<T, kPairs>(by.sin + row * kDim, lane, sa, sb);
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    const float low = a[i] * ca[i] - b[i] * sa[i];
    b[i] = b[i] * cb[i] + a[i] * sb[i];
    a[i] = low;
  }
  store_pairs<T, kPairs>(is_q ? q + (row * by.heads + head) * kDim
                              : k + (row * by.kv_heads + head - by.heads) * kDim,
                         lane, a, b);
}

template <typename T, int kPairs>
__global__ void __launch_bounds__(kBlock)
    split_backward(Heads<T> by, const T* to_q, const T* to_k, const T* to_v, const T* qkv, T* to_qkv,
                   float* to_weights) {
  constexpr int kDim = 64 * kPairs;
  const int each = by.heads + 2 * by.kv_heads, lane = threadIdx.x % 32;
  const std::int64_t warp = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32,
                     warps = static_cast<std::int64_t>(gridDim.x) * kWarps;
  float sums[2][2][kPairs] = {};  // of q and k, of both halves
  for (std::int64_t item = warp; item < by.rows * each; item += warps) {
    const std::int64_t row = item / each;
    const int head = static_cast<int>(item % each);
    float a[kPairs], b[kPairs];
    if (head >= by.heads + by.kv_heads) {
      load_pairs<T, kPairs>(to_v + (row * by.kv_heads + head - by.heads - by.kv_heads) * kDim, lane, a, b);
      store_pairs<T, kPairs>(to_qkv + item * kDim, lane, a, b);
      continue;
    }
    const bool is_q = head < by.heads;
    load_pairs<T, kPairs>(is_q ? to_q + (row * by.heads + head) * kDim
                               : to_k + (row * by.kv_heads + head - by.heads) * kDim,
                          lane, a, b);
    float ca[kPairs], cb[kPairs], sa[kPairs], sb[kPairs];
    load_pairs<T, kPairs>(by.cos + row * kDim, lane, ca, cb);
    load_pairs<T, kPairs>(by.sin + row * kDim, lane, sa, sb);
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const float low = a[i] * ca[i] + b[i] * sb[i];
      b[i] = b[i] * cb[i] - a[i] * sa[i];
      a[i] = low;
    }
    if (const T* weight = is_q ? by.q_weight : by.k_weight) {
      float xa[kPairs], xb[kPairs], wa[kPairs], wb[kPairs];
      load_pairs<T, kPairs>(qkv + item * kDim, lane, xa, xb);
      load_pairs<T, kPairs>(weight, lane, wa, wb);
      const float scale = head_scale<kPairs>(xa, xb, by.eps);
      float dot = 0;
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        xa[i] *= scale;
        xb[i] *= scale;
        const float part_a = a[i] * xa[i], part_b = b[i] * xb[i];
        sums[0][0][i] += is_q ? part_a : 0;
        sums[0][1][i] += is_q ? part_b : 0;
        sums[1][0][i] += is_q ? 0 : part_a;
        sums[1][1][i] += is_q ? 0 : part_b;
        a[i] *= by.zero_centred ? 1 + wa[i] : wa[i];
        b[i] *= by.zero_centred ? 1 + wb[i] : wb[i];
        dot += a[i] * xa[i] + b[i] * xb[i];
      }
      const float mean = warp_sum(dot) / kDim;
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        a[i] = scale * (a[i] - xa[i] * mean);
        b[i] = scale * (b[i] - xb[i] * mean);
      }
    }
    store_pairs<T, kPairs>(to_qkv + item * kDim, lane, a, b);
  }
  if (!to_weights) return;
#pragma unroll
  for (int part = 0; part < 2; ++part)
    store_pairs<float, kPairs>(to_weights + (warp * 2 + part) * kDim, lane, sums[part][0], sums[part][1]);
}

int blocks_of(std::int64_t rows) {
  // A row has three heads at the least; fewer rows than blocks take some of the warps only.
  return static_cast<int>(rows < kBlocks ? (rows > 0 ? rows : 1) : kBlocks);
}

template <typename T, int kPairs>
int forward(const Heads<T>& by, const void* qkv, void* q, void* k, void* v, void* stream) {
  const std::int64_t items = by.rows * (by.heads + 2 * by.kv_heads);
  split_forward<T, kPairs>
      <<<static_cast<unsigned>((items + kWarps - 1) / kWarps), kBlock, 0, stream_of(stream)>>>(
          by, static_cast<const T*>(qkv), static_cast<T*>(q), static_cast<T*>(k), static_cast<T*>(v));
  return launched();
}
template <typename T, int kPairs>
int backward(const Heads<T>& by, const void* to_q, const void* to_k, const void* to_v, const void* qkv,
             void* to_qkv, float* to_weights, void* stream) {
  split_backward<T, kPairs><<<blocks_of(by.rows), kBlock, 0, stream_of(stream)>>>(
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
  const auto run = [&](auto by) -> int {
    if (dim == 64) return forward<std::remove_const_t<std::remove_pointer_t<decltype(by.cos)>>, 1>(by, qkv, q, k, v, stream);
    if (dim == 128) return forward<std::remove_const_t<std::remove_pointer_t<decltype(by.cos)>>, 2>(by, qkv, q, k, v, stream);
    if (dim == 256) return forward<std::remove_const_t<std::remove_pointer_t<decltype(by.cos)>>, 4>(by, qkv, q, k, v, stream);
    return cudaErrorInvalidValue;
  };
  return type == musacoder::llm::kBF16 ? run(heads_of<bf16>(q_weight, k_weight, cos, sin, rows, heads, kv_heads, eps, zero_centred != 0))
                                       : run(heads_of<float>(q_weight, k_weight, cos, sin, rows, heads, kv_heads, eps, zero_centred != 0));
}

extern "C" std::int64_t mc_split_rotate_groups(std::int64_t rows) {
  return static_cast<std::int64_t>(blocks_of(rows)) * kWarps;
}

extern "C" int mc_split_rotate_backward(int type, const void* to_q, const void* to_k, const void* to_v,
                                        const void* qkv, const void* q_weight, const void* k_weight,
                                        const void* cos, const void* sin, void* to_qkv, float* to_weights,
                                        std::int64_t rows, std::int64_t heads, std::int64_t kv_heads,
                                        std::int64_t dim, float eps, int zero_centred, void* stream) {
  const auto run = [&](auto by) -> int {
    using T = std::remove_const_t<std::remove_pointer_t<decltype(by.cos)>>;
    if (dim == 64) return backward<T, 1>(by, to_q, to_k, to_v, qkv, to_qkv, to_weights, stream);
    if (dim == 128) return backward<T, 2>(by, to_q, to_k, to_v, qkv, to_qkv, to_weights, stream);
    if (dim == 256) return backward<T, 4>(by, to_q, to_k, to_v, qkv, to_qkv, to_weights, stream);
    return cudaErrorInvalidValue;
  };
  return type == musacoder::llm::kBF16 ? run(heads_of<bf16>(q_weight, k_weight, cos, sin, rows, heads, kv_heads, eps, zero_centred != 0))
                                       : run(heads_of<float>(q_weight, k_weight, cos, sin, rows, heads, kv_heads, eps, zero_centred != 0));
}
