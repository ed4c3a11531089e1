// Products whose rows do not depend on each other's company. In bf16 by the tensor cores: weights are the
// left operand (16 features), rows the right one (8 rows), and the eight warps of a block share the inner
// length in steps of 32, their sums joined in the order of warps. The order of a result's sum is so given by
// the inner length alone, however many rows or features a block takes.
#include "llm/kernels/cuda/common.cuh"
#include "llm/kernels/cuda/decode.h"

namespace musacoder::kernels {
namespace {

constexpr int kWarps = 8;

__device__ __forceinline__ void multiply_add(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                             unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

struct LinearCall {
  const bf16 *x, *weight, *bias, *add;
  void* y;
  std::int64_t rows, in, out;
};

// kTiles: of 8 rows each. With kLinearSwiglu a block takes 16 features' gates and ups, else kFeatures of 16.
template <int kKind, int kTiles, int kFeatures>
__global__ void __launch_bounds__(kWarps * 32) row_linear(LinearCall by) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, quad = lane / 4, part = lane % 4;
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.y) * kTiles * 8;
  std::int64_t features[kFeatures];  // where each group of 16 begins in the weights
#pragma unroll
  for (int f = 0; f < kFeatures; ++f)
    features[f] =
        kKind == kLinearSwiglu ? blockIdx.x * 16ll + f * by.out : (blockIdx.x * kFeatures + f) * 16ll;
  const std::int64_t limit = kKind == kLinearSwiglu ? 2 * by.out : by.out;
  float sums[kFeatures][kTiles][4] = {};
  // Lane `part` of four takes eight neighbours of each 32: which of them a product's inner places stand for
  // does not matter as long as both operands agree. Weights of kAhead steps are under way at a time, so that
  // memory is waited for once: with few rows nothing else hides it. (With many, the registers are better
  // spent on more blocks.)
  constexpr int kAhead = kTiles == 1 ? 4 : 1;
  const std::int64_t step = kWarps * 32;
  uint4 left[kAhead][kFeatures][2];
  const auto load_weights = [&](std::int64_t first) {
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead)
#pragma unroll
      for (int f = 0; f < kFeatures; ++f)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const std::int64_t k = first + ahead * step, feature = features[f] + quad + 8 * half;
          left[ahead][f][half] = k < by.in && feature < limit
                                     ? *reinterpret_cast<const uint4*>(by.weight + feature * by.in + k)
                                     : uint4{0, 0, 0, 0};
        }
  };
  std::int64_t first = warp * 32 + part * 8;
  load_weights(first);
  let_next_start();
  wait_for_earlier();
  for (; first < by.in; first += kAhead * step) {
    if (first >= kWarps * 32) load_weights(first);
    uint4 only[kAhead];
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      const std::int64_t k = first + ahead * step;
      if constexpr (kTiles == 1)
        only[ahead] = k < by.in && first_row + quad < by.rows
                          ? *reinterpret_cast<const uint4*>(by.x + (first_row + quad) * by.in + k)
                          : uint4{0, 0, 0, 0};
    }
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      const std::int64_t k = first + ahead * step;
      if (k >= by.in) break;  // the same for the whole warp
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        const std::int64_t row = first_row + t * 8 + quad;
        uint4 right{0, 0, 0, 0};
        if constexpr (kTiles == 1)
          right = only[ahead];
        else if (row < by.rows)
          right = *reinterpret_cast<const uint4*>(by.x + row * by.in + k);
#pragma unroll
        for (int f = 0; f < kFeatures; ++f) {
          const unsigned low[4] = {left[ahead][f][0].x, left[ahead][f][1].x, left[ahead][f][0].y,
                                   left[ahead][f][1].y};
          const unsigned high[4] = {left[ahead][f][0].z, left[ahead][f][1].z, left[ahead][f][0].w,
                                    left[ahead][f][1].w};
          multiply_add(sums[f][t], low, right.x, right.y);
          multiply_add(sums[f][t], high, right.z, right.w);
        }
      }
    }
  }
  // A warp's sums of one tile of rows at a time: [warps][features][16][8]
  __shared__ float shared[kWarps][kFeatures][16][8];
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    if (first_row + t * 8 >= by.rows) return;  // the same for the whole block
    __syncthreads();
#pragma unroll
    for (int f = 0; f < kFeatures; ++f) {
#pragma unroll
      for (int i = 0; i < 4; ++i) shared[warp][f][quad + 8 * (i / 2)][part * 2 + i % 2] = sums[f][t][i];
    }
    __syncthreads();
    constexpr int kOuts = kKind == kLinearSwiglu ? 1 : kFeatures;
    for (int i = threadIdx.x; i < kOuts * 128; i += kWarps * 32) {
      const int f = i / 128, r = i / 16 % 8, feature_in = i % 16;  // features fastest: neighbours in y
      const std::int64_t row = first_row + t * 8 + r, feature = kKind == kLinearSwiglu
                                                                    ? blockIdx.x * 16ll + feature_in
                                                                    : features[f] + feature_in;
      if (row >= by.rows || feature >= by.out) continue;
      float total = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) total += shared[w][f][feature_in][r];
      if (by.bias) total += wide(by.bias[feature]);
      const std::int64_t at = row * by.out + feature;
      if constexpr (kKind == kLinearFloat) {
        static_cast<float*>(by.y)[at] = total;
      } else if constexpr (kKind == kLinearAdd) {
        static_cast<bf16*>(by.y)[at] = narrow<bf16>(wide(by.add[at]) + rounded<bf16>(total));
      } else if constexpr (kKind == kLinearSwiglu) {
        float up = 0;
#pragma unroll
        for (int w = 0; w < kWarps; ++w) up += shared[w][kFeatures - 1][feature_in][r];
        const float gate = rounded<bf16>(total);
        static_cast<bf16*>(by.y)[at] =
            narrow<bf16>(rounded<bf16>(gate / (1 + expf(-gate))) * rounded<bf16>(up));
      } else {
        static_cast<bf16*>(by.y)[at] = narrow<bf16>(total);
      }
    }
  }
}

template <int kKind, int kTiles>
int launch_tiles(const LinearCall& by, cudaStream_t stream) {
  const std::int64_t groups = (by.out + 15) / 16;
  const auto rows = static_cast<unsigned>((by.rows + kTiles * 8 - 1) / (kTiles * 8));
  if constexpr (kKind == kLinearSwiglu)
    return launch_chained(row_linear<kKind, kTiles, 2>, dim3(static_cast<unsigned>(groups), rows),
                          kWarps * 32, stream, by);
  if (groups >= 2 * 264 || kTiles >= 4)  // two groups to a block halve the reading of rows
    return launch_chained(row_linear<kKind, kTiles, 2>, dim3(static_cast<unsigned>((groups + 1) / 2), rows),
                          kWarps * 32, stream, by);
  return launch_chained(row_linear<kKind, kTiles, 1>, dim3(static_cast<unsigned>(groups), rows), kWarps * 32,
                        stream, by);
}

template <int kKind>
int launch(const LinearCall& by, cudaStream_t stream) {
  if (by.rows <= 8) return launch_tiles<kKind, 1>(by, stream);
  if (by.rows <= 32) return launch_tiles<kKind, 4>(by, stream);
  return launch_tiles<kKind, 8>(by, stream);
}

// float32: a warp for each result, lanes apart.
template <int kKind>
__global__ void __launch_bounds__(256)
    plain_linear(const float* x, const float* weight, const float* bias, const float* add, float* y,
                 std::int64_t rows, std::int64_t in, std::int64_t out) {
  let_next_start();
  wait_for_earlier();
  const std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * 8 + threadIdx.x / 32;
  if (item >= rows * out) return;
  const std::int64_t row = item / out, feature = item % out;
  const auto dot = [&](std::int64_t of) {
    float sum = 0;
    for (std::int64_t k = threadIdx.x % 32; k < in; k += 32)
      sum = fmaf(x[row * in + k], weight[of * in + k], sum);
    return warp_sum(sum);
  };
  float total = dot(feature);
  if (bias) total += bias[feature];
  if constexpr (kKind == kLinearAdd) total += add[item];
  if constexpr (kKind == kLinearSwiglu) total = total / (1 + expf(-total)) * dot(out + feature);
  if (threadIdx.x % 32 == 0) y[item] = total;
}

template <int kKind>
int launch_plain(const void* x, const void* weight, const void* bias, const void* add, void* y,
                 std::int64_t rows, std::int64_t in, std::int64_t out, cudaStream_t stream) {
  return launch_chained(plain_linear<kKind>, dim3(static_cast<unsigned>((rows * out + 7) / 8)), 256, stream,
                        static_cast<const float*>(x), static_cast<const float*>(weight),
                        static_cast<const float*>(bias), static_cast<const float*>(add),
                        static_cast<float*>(y), rows, in, out);
}

}  // namespace
}  // namespace musacoder::kernels

using namespace musacoder::kernels;

extern "C" int mc_row_linear(int type, int kind, const void* x, const void* weight, const void* bias,
                             const void* add, void* y, std::int64_t rows, std::int64_t in, std::int64_t out,
                             void* stream) {
  if (rows == 0) return 0;
  if (type == musacoder::llm::kBF16) {
    if (in % 32 != 0) return cudaErrorInvalidValue;
    const LinearCall by{static_cast<const bf16*>(x),
                        static_cast<const bf16*>(weight),
                        static_cast<const bf16*>(bias),
                        static_cast<const bf16*>(add),
                        y,
                        rows,
                        in,
                        out};
    if (kind == kLinearAdd) return launch<kLinearAdd>(by, stream_of(stream));
    if (kind == kLinearSwiglu) return launch<kLinearSwiglu>(by, stream_of(stream));
    if (kind == kLinearFloat) return launch<kLinearFloat>(by, stream_of(stream));
    return launch<kLinearPlain>(by, stream_of(stream));
  }
  const auto run = kind == kLinearAdd      ? launch_plain<kLinearAdd>
                   : kind == kLinearSwiglu ? launch_plain<kLinearSwiglu>
                                           : launch_plain<kLinearPlain>;
  return run(x, weight, bias, add, y, rows, in, out, stream_of(stream));
}
