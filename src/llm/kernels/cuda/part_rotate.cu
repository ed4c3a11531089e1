// Heads out of a common product with gates between them: normed, rotated in part, keys and values into pages.
#include "llm/kernels/cuda/common.cuh"
#include "llm/kernels/cuda/decode.h"

namespace musacoder::kernels {
namespace {

constexpr int kWarps = 8;

struct HeadPlace {
  const std::int32_t *positions, *tables;
  std::int64_t table_width, rows;
  int heads, kv_heads, rotary, page_tokens;
  float eps;
  bool gated, centred;
};

// A warp takes one head of one row; lane l has elements l + 32 i.
template <typename T, int kEach>
__global__ void __launch_bounds__(kWarps * 32)
    part_rotate(HeadPlace by, const T* qkv, const T* q_weight, const T* k_weight, const float* frequencies,
                T* q, T* keys, T* values) {
  constexpr int kDim = 32 * kEach;
  __shared__ float shared[kWarps][kDim];
  let_next_start();
  wait_for_earlier();
  const int each = by.heads + 2 * by.kv_heads, lane = threadIdx.x % 32;
  const std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (item >= by.rows * each) return;  // whole warps
  const std::int64_t row = item / each;
  const int head = static_cast<int>(item % each), position = by.positions[row], wide_q = by.gated ? 2 : 1;
  const bool is_q = head < by.heads, is_v = head >= by.heads + by.kv_heads;
  const std::int64_t width = (static_cast<std::int64_t>(by.heads) * wide_q + 2 * by.kv_heads) * kDim;
  const T* from = qkv + row * width + (is_q ? head * wide_q : by.heads * (wide_q - 1) + head) * kDim;
  float x[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) x[i] = wide(from[lane + 32 * i]);
  const T* weight = is_q ? q_weight : is_v ? nullptr : k_weight;
  if (weight) {
    float squares = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) squares += x[i] * x[i];
    const float scale = rsqrtf(warp_sum(squares) / kDim + by.eps);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const float w = wide(weight[lane + 32 * i]);
      x[i] = rounded<T>(by.centred ? x[i] * scale * (1 + w) : rounded<T>(x[i] * scale) * w);
    }
  }
  if (!is_v) {
    float* mine = shared[threadIdx.x / 32];
#pragma unroll
    for (int i = 0; i < kEach; ++i) mine[lane + 32 * i] = x[i];
    __syncwarp();
    const int half = by.rotary / 2;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int e = lane + 32 * i;
      if (e >= by.rotary) continue;
      const bool low = e < half;
      const float angle = static_cast<float>(position < 0 ? 0 : position) * frequencies[low ? e : e - half];
      const float cos = rounded<T>(cosf(angle)), sin = rounded<T>(sinf(angle));
      x[i] = low ? x[i] * cos - mine[e + half] * sin : x[i] * cos + mine[e - half] * sin;
    }
  }
  T* to;
  if (is_q) {
    to = q + (row * by.heads + head) * kDim;
  } else {
    if (position < 0) return;
    const std::int64_t page = by.tables[row * by.table_width + position / by.page_tokens];
    const int kv_head = is_v ? head - by.heads - by.kv_heads : head - by.heads;
    to = (is_v ? values : keys) +
         ((page * by.kv_heads + kv_head) * by.page_tokens + position % by.page_tokens) * kDim;
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) to[lane + 32 * i] = narrow<T>(x[i]);
}

template <typename T, int kEach>
int rotate(const HeadPlace& by, const void* qkv, const void* q_weight, const void* k_weight,
           const float* frequencies, void* q, void* keys, void* values, cudaStream_t stream) {
  const std::int64_t items = by.rows * (by.heads + 2 * by.kv_heads);
  return launch_chained(part_rotate<T, kEach>, dim3(static_cast<unsigned>((items + kWarps - 1) / kWarps)),
                        kWarps * 32, stream, by, static_cast<const T*>(qkv), static_cast<const T*>(q_weight),
                        static_cast<const T*>(k_weight), frequencies, static_cast<T*>(q),
                        static_cast<T*>(keys), static_cast<T*>(values));
}

}  // namespace
}  // namespace musacoder::kernels

using namespace musacoder::kernels;

extern "C" int mc_part_rotate_into_cache(int type, const MusaCoderHeads* sizes, const void* qkv,
                                         const void* q_weight, const void* k_weight, const float* frequencies,
                                         const std::int32_t* positions, const std::int32_t* tables,
                                         std::int64_t table_width, void* q, void* keys, void* values,
                                         std::int64_t rows, void* stream) {
  if (rows == 0) return 0;
  if (sizes->rotary < 2 || sizes->rotary % 2 != 0 || sizes->rotary > sizes->dim) return cudaErrorInvalidValue;
  const HeadPlace by{positions,
                     tables,
                     table_width,
                     rows,
                     static_cast<int>(sizes->heads),
                     static_cast<int>(sizes->kv_heads),
                     static_cast<int>(sizes->rotary),
                     static_cast<int>(sizes->page_tokens),
                     sizes->eps,
                     sizes->gated != 0,
                     sizes->centred != 0};
  const auto with = [&](auto run) {
    return run(by, qkv, q_weight, k_weight, frequencies, q, keys, values, stream_of(stream));
  };
  const bool brain = type == musacoder::llm::kBF16;
  if (sizes->dim == 64) return brain ? with(rotate<bf16, 2>) : with(rotate<float, 2>);
  if (sizes->dim == 128) return brain ? with(rotate<bf16, 4>) : with(rotate<float, 4>);
  if (sizes->dim == 256) return brain ? with(rotate<bf16, 8>) : with(rotate<float, 8>);
  return cudaErrorInvalidValue;
}
