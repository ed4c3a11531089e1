// Gated DeltaNet, token after token: the convolution of each row, and the rule with its norm and gate.
#include "llm/kernels/cuda/common.cuh"
#include "llm/kernels/cuda/decode.h"

namespace musacoder::kernels {
namespace {

constexpr int kParts = 4, kMostValueDim = 128;

struct Delta {
  int key_heads, value_heads, value_dim, kernel, channels;
  std::int64_t width, slot_floats;
  float eps;
  bool round_norm;
};

__device__ __forceinline__ float silu(float x) { return x / (1 + expf(-x)); }

// A thread takes a channel of a row. Rows before the span's first one are in the window.
template <typename T>
__global__ void __launch_bounds__(256)
    delta_conv(Delta by, const T* product, const float* taps, const float* windows,
               const MusaCoderSpan* spans, const std::int32_t* span_of, T* out) {
  let_next_start();
  wait_for_earlier();
  const std::int64_t row = blockIdx.x;
  const int channel = static_cast<int>(blockIdx.y) * 256 + threadIdx.x;
  if (channel >= by.channels) return;
  const MusaCoderSpan span = spans[span_of[row]];
  T* to = out + row * by.channels + channel;
  if (span.slot < 0) {
    *to = narrow<T>(0);
    return;
  }
  const int before = by.kernel - 1, first = static_cast<int>(row) - span.first - before;
  const float* window = windows + span.slot * by.slot_floats + channel;
  const T* rows = product + static_cast<std::int64_t>(span.first) * by.width + channel;
  float sum = 0;
  for (int tap = 0; tap < by.kernel; ++tap) {
    const int at = first + tap;
    const float x =
        at < 0 ? window[static_cast<std::int64_t>(before + at) * by.channels] : wide(rows[at * by.width]);
    sum = fmaf(taps[static_cast<std::int64_t>(tap) * by.channels + channel], x, sum);
  }
  *to = narrow<T>(silu(rounded<T>(sum)));
}

// A block takes a value head of a span, and goes through its rows in their order with the head's state in
// registers: thread (part, j) has rows part * kKeys .. of the state's column j. What a row gives so depends
// on the rows before it alone. The norm and the gate of a row are the last warp's, while others begin the
// next.
template <typename T, int kKeys>
__global__ void __launch_bounds__(kParts* kMostValueDim)
    delta_rule(Delta by, const T* product, const T* convolved, const float* a_log, const float* dt_bias,
               const float* norm_weight, float* states, float* windows, const MusaCoderSpan* spans, T* out) {
  constexpr int kKeyDim = kParts * kKeys, kEach = (kKeyDim + 31) / 32;
  __shared__ float query[kKeyDim], key[kKeyDim], gates[2], seen[kParts][kMostValueDim],
      outs[kParts][kMostValueDim];
  let_next_start();
  wait_for_earlier();
  const int head = blockIdx.x, key_head = head / (by.value_heads / by.key_heads);
  const int j = threadIdx.x % by.value_dim, part = threadIdx.x / by.value_dim;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, last_warp = blockDim.x / 32 - 1;
  const MusaCoderSpan span = spans[blockIdx.y];
  const std::int64_t out_width = static_cast<std::int64_t>(by.value_heads) * by.value_dim;
  if (span.slot < 0) {
    if (part == 0)
      for (int t = 0; t < span.count; ++t)
        out[(span.first + t) * out_width + head * by.value_dim + j] = narrow<T>(0);
    return;
  }
  const int values_at = 2 * by.key_heads * kKeyDim + head * by.value_dim;
  float* state = states + span.slot * by.slot_floats +
                 static_cast<std::int64_t>(head * kKeyDim + part * kKeys) * by.value_dim + j;
  float s[kKeys];
#pragma unroll
  for (int i = 0; i < kKeys; ++i) s[i] = state[i * by.value_dim];

  // Of the row that comes next: q (the first warp) or k (the second), v, and what the gates are made of.
  float raw[kEach] = {}, v = 0, a = 0, b = 0;
  const auto fetch = [&](std::int64_t row) {
    const T* from = convolved + row * by.channels;
    if (warp < 2)
#pragma unroll
      for (int i = 0; i < kEach; ++i)
        if (lane + 32 * i < kKeyDim)
          raw[i] = wide(from[(warp * by.key_heads + key_head) * kKeyDim + lane + 32 * i]);
    v = wide(from[values_at + j]);
    const T* gate = product + row * by.width + by.channels + out_width + head;
    if (warp == last_warp) {
      a = wide(gate[0]);
      b = wide(gate[by.value_heads]);
    }
  };
  const auto finish = [&](std::int64_t row) {
    float o[kMostValueDim / 32], squares = 0;
#pragma unroll
    for (int i = 0; i < kMostValueDim / 32; ++i) {
      const int e = lane + 32 * i;
      o[i] = 0;
      if (e >= by.value_dim) continue;
#pragma unroll
      for (int p = 0; p < kParts; ++p) o[i] += outs[p][e];
      o[i] = rounded<T>(o[i]);
      squares += o[i] * o[i];
    }
    const float scale = rsqrtf(warp_sum(squares) / static_cast<float>(by.value_dim) + by.eps);
#pragma unroll
    for (int i = 0; i < kMostValueDim / 32; ++i) {
      const int e = lane + 32 * i;
      if (e >= by.value_dim) continue;
      float normed = rounded<T>(o[i] * scale) * norm_weight[e];
      if (by.round_norm) normed = rounded<T>(normed);
      const float z = wide(product[row * by.width + by.channels + head * by.value_dim + e]);
      out[row * out_width + head * by.value_dim + e] = narrow<T>(normed * silu(z));
    }
  };

  fetch(span.first);
  for (int t = 0; t < span.count; ++t) {
    const std::int64_t row = span.first + t;
    if (warp < 2) {
      float squares = 0;
#pragma unroll
      for (int i = 0; i < kEach; ++i) squares += raw[i] * raw[i];
      float scale = rsqrtf(warp_sum(squares) + 1e-6f);
      if (warp == 0) scale /= sqrtf(static_cast<float>(kKeyDim));
#pragma unroll
      for (int i = 0; i < kEach; ++i)
        if (lane + 32 * i < kKeyDim) (warp == 0 ? query : key)[lane + 32 * i] = raw[i] * scale;
    }
    if (warp == last_warp) {
      if (lane == 0) {
        const float x = a + dt_bias[head];
        gates[0] = expf(-expf(a_log[head]) * (x > 20 ? x : log1pf(expf(x))));
        gates[1] = rounded<T>(1 / (1 + expf(-b)));
      }
      if (t > 0) finish(row - 1);
    }
    __syncthreads();
    const float value = v, kept = gates[0], beta = gates[1];
    if (t + 1 < span.count) fetch(row + 1);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kKeys; ++i) {
      s[i] *= kept;
      sum = fmaf(s[i], key[part * kKeys + i], sum);
    }
    seen[part][j] = sum;
    __syncthreads();
    float known = 0;
#pragma unroll
    for (int p = 0; p < kParts; ++p) known += seen[p][j];
    const float update = (value - known) * beta;
    sum = 0;
#pragma unroll
    for (int i = 0; i < kKeys; ++i) {
      s[i] = fmaf(key[part * kKeys + i], update, s[i]);
      sum = fmaf(s[i], query[part * kKeys + i], sum);
    }
    outs[part][j] = sum;
    __syncthreads();
  }
  if (warp == last_warp) finish(span.first + span.count - 1);
#pragma unroll
  for (int i = 0; i < kKeys; ++i) state[i * by.value_dim] = s[i];

  // The window moves on: of the head's values, and once for all heads that share them of q and k. In the
  // order of time, so that a row is read before it is overwritten.
  const int before = by.kernel - 1, group = by.value_heads / by.key_heads;
  const int mine = by.value_dim + (head % group == 0 ? 2 * kKeyDim : 0);
  for (int c = threadIdx.x; c < mine; c += blockDim.x) {
    const int at_key = c - by.value_dim,
              channel = at_key < 0
                            ? values_at + c
                            : (at_key / kKeyDim * by.key_heads + key_head) * kKeyDim + at_key % kKeyDim;
    float* window = windows + span.slot * by.slot_floats + channel;
    const T* rows = product + static_cast<std::int64_t>(span.first) * by.width + channel;
    for (int i = 0; i < before; ++i) {
      const int t = span.count - before + i;
      window[static_cast<std::int64_t>(i) * by.channels] =
          t < 0 ? window[static_cast<std::int64_t>(before + t) * by.channels] : wide(rows[t * by.width]);
    }
  }
}

template <typename T>
int conv(const Delta& by, const void* product, const float* taps, const float* windows,
         const MusaCoderSpan* spans, const std::int32_t* span_of, void* out, std::int64_t rows,
         cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(rows), static_cast<unsigned>((by.channels + 255) / 256));
  return launch_chained(delta_conv<T>, grid, 256, stream, by, static_cast<const T*>(product), taps, windows,
                        spans, span_of, static_cast<T*>(out));
}

struct RuleCall {
  const void *product, *convolved;
  const float *a_log, *dt_bias, *norm_weight;
  float *states, *windows;
  const MusaCoderSpan* spans;
  void* out;
  std::int64_t count;
};
template <typename T, int kKeys>
int rule(const Delta& by, const RuleCall& call, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(by.value_heads), static_cast<unsigned>(call.count));
  return launch_chained(delta_rule<T, kKeys>, grid, static_cast<unsigned>(kParts * by.value_dim), stream, by,
                        static_cast<const T*>(call.product), static_cast<const T*>(call.convolved),
                        call.a_log, call.dt_bias, call.norm_weight, call.states, call.windows, call.spans,
                        static_cast<T*>(call.out));
}
template <typename T>
int rule(std::int64_t key_dim, const Delta& by, const RuleCall& call, cudaStream_t stream) {
  if (key_dim == 16) return rule<T, 4>(by, call, stream);
  if (key_dim == 32) return rule<T, 8>(by, call, stream);
  if (key_dim == 64) return rule<T, 16>(by, call, stream);
  return rule<T, 32>(by, call, stream);
}

Delta sizes_of(const MusaCoderDelta& by) {
  return {static_cast<int>(by.key_heads),
          static_cast<int>(by.value_heads),
          static_cast<int>(by.value_dim),
          static_cast<int>(by.kernel),
          static_cast<int>(2 * by.key_heads * by.key_dim + by.value_heads * by.value_dim),
          by.width,
          by.slot_floats,
          by.eps,
          by.round_norm != 0};
}

}  // namespace
}  // namespace musacoder::kernels

using namespace musacoder::kernels;

extern "C" int mc_delta_takes(std::int64_t key_dim, std::int64_t value_dim) {
  const bool key = key_dim == 16 || key_dim == 32 || key_dim == 64 || key_dim == 128;
  return key && value_dim >= 16 && value_dim <= kMostValueDim && value_dim % 16 == 0;
}

extern "C" int mc_delta_conv(int type, const MusaCoderDelta* sizes, const void* product, const float* taps,
                             const float* windows, const MusaCoderSpan* spans, const std::int32_t* span_of,
                             void* out, std::int64_t rows, void* stream) {
  if (rows == 0) return 0;
  const auto run = type == musacoder::llm::kBF16 ? conv<bf16> : conv<float>;
  return run(sizes_of(*sizes), product, taps, windows, spans, span_of, out, rows, stream_of(stream));
}

extern "C" int mc_delta_rule(int type, const MusaCoderDelta* sizes, const void* product,
                             const void* convolved, const float* a_log, const float* dt_bias,
                             const float* norm_weight, float* states, float* windows,
                             const MusaCoderSpan* spans, void* out, std::int64_t count, void* stream) {
  if (count == 0) return 0;
  if (!mc_delta_takes(sizes->key_dim, sizes->value_dim) || sizes->value_heads % sizes->key_heads != 0)
    return cudaErrorInvalidValue;
  const RuleCall call{product, convolved, a_log, dt_bias, norm_weight, states, windows, spans, out, count};
  const Delta by = sizes_of(*sizes);
  return type == musacoder::llm::kBF16 ? rule<bf16>(sizes->key_dim, by, call, stream_of(stream))
                                       : rule<float>(sizes->key_dim, by, call, stream_of(stream));
}
