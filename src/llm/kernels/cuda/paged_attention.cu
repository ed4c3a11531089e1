// Keys and values into their pages, and attention over them.
#include "llm/kernels/cuda/common.cuh"
#include "llm/kernels/cuda/decode.h"

namespace musacoder::kernels {
namespace {

constexpr int kWarps = 8, kPageTokens = 16;

struct CachePlace {
  const std::int32_t *positions, *tables;
  std::int64_t table_width, rows;
  int heads, kv_heads;
};

// A warp takes one head of one row; lane l has elements l + 32 i of both halves.
template <typename T, int kPairs>
__global__ void __launch_bounds__(256)
    rotate_into_cache(CachePlace by, const T* qkv, const T* q_weight, const T* k_weight,
                      const float* frequencies, T* q, T* keys, T* values, int page_tokens, float eps) {
  constexpr int kDim = 64 * kPairs;
  let_next_start();
  wait_for_earlier();
  const int each = by.heads + 2 * by.kv_heads, lane = threadIdx.x % 32;
  const std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * 8 + threadIdx.x / 32;
  if (item >= by.rows * each) return;
  const std::int64_t row = item / each;
  const int head = static_cast<int>(item % each), position = by.positions[row];
  float a[kPairs], b[kPairs];
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    a[i] = wide(qkv[item * kDim + lane + 32 * i]);
    b[i] = wide(qkv[item * kDim + lane + 32 * (i + kPairs)]);
  }
  const bool is_q = head < by.heads, is_v = head >= by.heads + by.kv_heads;
  const T* weight = is_q ? q_weight : is_v ? nullptr : k_weight;
  if (weight) {
    float squares = 0;
#pragma unroll
    for (int i = 0; i < kPairs; ++i) squares += a[i] * a[i] + b[i] * b[i];
    const float scale = rsqrtf(warp_sum(squares) / kDim + eps);
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      a[i] = rounded<T>(rounded<T>(a[i] * scale) * wide(weight[lane + 32 * i]));
      b[i] = rounded<T>(rounded<T>(b[i] * scale) * wide(weight[lane + 32 * (i + kPairs)]));
    }
  }
  if (!is_v) {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const float angle = static_cast<float>(position < 0 ? 0 : position) * frequencies[lane + 32 * i];
      const float cos = rounded<T>(cosf(angle)), sin = rounded<T>(sinf(angle));
      const float low = a[i] * cos - b[i] * sin;
      b[i] = b[i] * cos + a[i] * sin;
      a[i] = low;
    }
  }
  T* to;
  if (is_q) {
    to = q + (row * by.heads + head) * kDim;
  } else {
    if (position < 0) return;
    const std::int64_t page = by.tables[row * by.table_width + position / page_tokens];
    const int kv_head = is_v ? head - by.heads - by.kv_heads : head - by.heads;
    to = (is_v ? values : keys) +
         ((page * by.kv_heads + kv_head) * page_tokens + position % page_tokens) * kDim;
  }
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    to[lane + 32 * i] = narrow<T>(a[i]);
    to[lane + 32 * (i + kPairs)] = narrow<T>(b[i]);
  }
}

// A block takes a row's heads of one kv head, kGroup of them at most. Warp w goes through pages w, w + 8, ...
// with a running maximum; the warps' parts are joined in their order, so a result depends on the position
// alone. Scores: two lanes a token, each half of its elements. Values: lane l sums elements l + 32 i.
template <typename T, int kDim, int kGroup>
__global__ void __launch_bounds__(kWarps * 32)
    paged_attention(CachePlace by, const T* q, const T* keys, const T* values, const T* gate,
                    std::int64_t gate_width, T* out, float scale) {
  constexpr int kEach = kDim / 32;
  let_next_start();
  wait_for_earlier();
  const std::int64_t row = blockIdx.x;
  const int all = by.heads / by.kv_heads, splits = (all + kGroup - 1) / kGroup;
  const int kv_head = static_cast<int>(blockIdx.y) / splits, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first = static_cast<int>(blockIdx.y) % splits * kGroup, group = min(kGroup, all - first);
  const int length = by.positions[row] + 1;
  __shared__ float queries[kGroup][kDim];
  __shared__ float tops[kWarps][kGroup], sums[kWarps][kGroup], parts[kWarps][kGroup][kDim];
  const std::int64_t first_head = row * by.heads + static_cast<std::int64_t>(kv_head) * all + first;
  for (int i = threadIdx.x; i < kGroup * kDim; i += kWarps * 32)
    queries[i / kDim][i % kDim] = i / kDim < group ? wide(q[first_head * kDim + i]) * scale : 0.0f;
  __syncthreads();
  float top[kGroup], sum[kGroup], seen[kGroup][kEach];
#pragma unroll
  for (int g = 0; g < kGroup; ++g) {
    top[g] = -INFINITY;
    sum[g] = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) seen[g][i] = 0;
  }
  for (int page = warp; page * kPageTokens < length; page += kWarps) {
    const std::int64_t place =
        (static_cast<std::int64_t>(by.tables[row * by.table_width + page]) * by.kv_heads + kv_head) *
        kPageTokens * kDim;
    const int token = lane / 2, half = lane % 2;
    const bool there = page * kPageTokens + token < length;
    float scores[kGroup] = {};
    if (there) {
      const T* key = keys + place + token * kDim + half * (kDim / 2);
#pragma unroll
      for (int at = 0; at < kDim / 2; at += 8) {
        const Eight<T> k = load8(key + at);
#pragma unroll
        for (int g = 0; g < kGroup; ++g)
#pragma unroll
          for (int e = 0; e < 8; ++e) scores[g] += wide(k.at[e]) * queries[g][half * (kDim / 2) + at + e];
      }
    }
    const int tokens = min(kPageTokens, length - page * kPageTokens);
    float weights[kGroup];
#pragma unroll
    for (int g = 0; g < kGroup; ++g) {
      float score = scores[g] + __shfl_xor_sync(0xffffffffu, scores[g], 1);
      if (!there) score = -INFINITY;
      const float higher = fmaxf(top[g], warp_max(score)), shrink = expf(top[g] - higher);
      weights[g] = there ? expf(score - higher) : 0.0f;
      sum[g] = sum[g] * shrink + warp_sum(half == 0 ? weights[g] : 0.0f);
      top[g] = higher;
#pragma unroll
      for (int i = 0; i < kEach; ++i) seen[g][i] *= shrink;
    }
    const T* value = values + place + lane;
#pragma unroll 4
    for (int t = 0; t < tokens; ++t) {
      float v[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) v[i] = wide(value[t * kDim + 32 * i]);
#pragma unroll
      for (int g = 0; g < kGroup; ++g) {
        const float weight = __shfl_sync(0xffffffffu, weights[g], 2 * t);
#pragma unroll
        for (int i = 0; i < kEach; ++i) seen[g][i] = fmaf(weight, v[i], seen[g][i]);
      }
    }
  }
#pragma unroll
  for (int g = 0; g < kGroup; ++g) {
    if (lane == 0) {
      tops[warp][g] = top[g];
      sums[warp][g] = sum[g];
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) parts[warp][g][lane + 32 * i] = seen[g][i];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < group * kDim; i += kWarps * 32) {
    const int g = i / kDim, e = i % kDim;
    float highest = -INFINITY;
    for (int w = 0; w < kWarps; ++w) highest = fmaxf(highest, tops[w][g]);
    float total = 0, value = 0;
    for (int w = 0; w < kWarps; ++w) {
      if (tops[w][g] == -INFINITY) continue;
      const float by_warp = expf(tops[w][g] - highest);
      total += sums[w][g] * by_warp;
      value += parts[w][g][e] * by_warp;
    }
    float result = total > 0 ? value / total : 0.0f;
    if (gate) {
      const float x = wide(gate[row * gate_width + (kv_head * all + first + g) * 2ll * kDim + e]);
      result = rounded<T>(result) * rounded<T>(1 / (1 + expf(-x)));
    }
    out[first_head * kDim + i] = narrow<T>(result);
  }
}

struct AttendCall {
  const void *q, *keys, *values, *gate;
  std::int64_t gate_width;
  void* out;
  float scale;
};
template <typename T, int kDim, int kGroup>
int attend(const CachePlace& by, const AttendCall& call, cudaStream_t stream) {
  const int splits = (by.heads / by.kv_heads + kGroup - 1) / kGroup;
  const dim3 grid(static_cast<unsigned>(by.rows), static_cast<unsigned>(by.kv_heads * splits));
  return launch_chained(paged_attention<T, kDim, kGroup>, grid, kWarps * 32, stream, by,
                        static_cast<const T*>(call.q), static_cast<const T*>(call.keys),
                        static_cast<const T*>(call.values), static_cast<const T*>(call.gate), call.gate_width,
                        static_cast<T*>(call.out), call.scale);
}
template <typename T, int kDim>
int attend(const CachePlace& by, const AttendCall& call, cudaStream_t stream) {
  const int group = by.heads / by.kv_heads;
  if (group == 1) return attend<T, kDim, 1>(by, call, stream);
  if (group == 2) return attend<T, kDim, 2>(by, call, stream);
  if (group <= 4 || kDim > 128) return attend<T, kDim, 4>(by, call, stream);
  if constexpr (kDim <= 128) return attend<T, kDim, 8>(by, call, stream);
  return cudaErrorInvalidValue;
}
template <typename T>
int attend(std::int64_t dim, const CachePlace& by, const AttendCall& call, cudaStream_t stream) {
  if (dim == 64) return attend<T, 64>(by, call, stream);
  if (dim == 128) return attend<T, 128>(by, call, stream);
  if (dim == 256) return attend<T, 256>(by, call, stream);
  return cudaErrorInvalidValue;
}

template <typename T, int kPairs>
int rotate(const CachePlace& by, const void* qkv, const void* q_weight, const void* k_weight,
           const float* frequencies, void* q, void* keys, void* values, int page_tokens, float eps,
           cudaStream_t stream) {
  const std::int64_t items = by.rows * (by.heads + 2 * by.kv_heads);
  return launch_chained(rotate_into_cache<T, kPairs>, dim3(static_cast<unsigned>((items + 7) / 8)), 256,
                        stream, by, static_cast<const T*>(qkv), static_cast<const T*>(q_weight),
                        static_cast<const T*>(k_weight), frequencies, static_cast<T*>(q),
                        static_cast<T*>(keys), static_cast<T*>(values), page_tokens, eps);
}

}  // namespace
}  // namespace musacoder::kernels

using namespace musacoder::kernels;

extern "C" int mc_rotate_into_cache(int type, const void* qkv, const void* q_weight, const void* k_weight,
                                    const float* frequencies, const std::int32_t* positions,
                                    const std::int32_t* tables, std::int64_t table_width, void* q, void* keys,
                                    void* values, std::int64_t rows, std::int64_t heads,
                                    std::int64_t kv_heads, std::int64_t dim, std::int64_t page_tokens,
                                    float eps, void* stream) {
  if (rows == 0) return 0;
  const CachePlace by{
      positions, tables, table_width, rows, static_cast<int>(heads), static_cast<int>(kv_heads)};
  const auto with = [&](auto run) {
    return run(by, qkv, q_weight, k_weight, frequencies, q, keys, values, static_cast<int>(page_tokens), eps,
               stream_of(stream));
  };
  const bool brain = type == musacoder::llm::kBF16;
  if (dim == 64) return brain ? with(rotate<bf16, 1>) : with(rotate<float, 1>);
  if (dim == 128) return brain ? with(rotate<bf16, 2>) : with(rotate<float, 2>);
  return cudaErrorInvalidValue;
}

extern "C" int mc_paged_attention(int type, const void* q, const void* keys, const void* values,
                                  const std::int32_t* positions, const std::int32_t* tables,
                                  std::int64_t table_width, const void* gate, std::int64_t gate_width,
                                  void* out, std::int64_t rows, std::int64_t heads, std::int64_t kv_heads,
                                  std::int64_t dim, float scale, void* stream) {
  if (rows == 0) return 0;
  const CachePlace by{
      positions, tables, table_width, rows, static_cast<int>(heads), static_cast<int>(kv_heads)};
  const auto run = type == musacoder::llm::kBF16 ? attend<bf16> : attend<float>;
  return run(dim, by, {q, keys, values, gate, gate_width, out, scale}, stream_of(stream));
}
