// Log-probabilities of targets from rows of logits, and the gradient, in place. One block a row; the running
// maximum and sum of a thread are joined over the block in a fixed order.
#include "llm/kernels/cuda/common.cuh"
#include "llm/kernels/cuda/kernels.h"

namespace musacoder::kernels {
namespace {

constexpr int kBlock = 512;

struct Peak {
  float top, sum;  // sum of exp(x - top)
};
__device__ __forceinline__ Peak joined(Peak a, Peak b) {
  const float top = fmaxf(a.top, b.top);
  if (top == -INFINITY) return {top, 0};
  return {top, a.sum * expf(a.top - top) + b.sum * expf(b.top - top)};
}

template <typename T>
__global__ void __launch_bounds__(kBlock)
    logprob_forward(const T* logits, const std::int64_t* targets, float* log_sum, float* logprob,
                    std::int64_t vocab, float inverse_temperature) {
  const T* row = logits + static_cast<std::int64_t>(blockIdx.x) * vocab;
  Peak mine{-INFINITY, 0};
  const auto take = [&](float x) {
    x *= inverse_temperature;
    if (x > mine.top) {
      mine.sum = mine.sum * expf(mine.top - x) + 1;
      mine.top = x;
    } else {
      mine.sum += expf(x - mine.top);
    }
  };
  const bool vectors = vocab % 8 == 0;
  if (vectors)
    for (std::int64_t i = threadIdx.x * 8; i < vocab; i += kBlock * 8) {
      const Eight<T> x = load8(row + i);
      float highest = wide(x.at[0]);
#pragma unroll
      for (int e = 1; e < 8; ++e) highest = fmaxf(highest, wide(x.at[e]));
      highest *= inverse_temperature;
      if (highest > mine.top) {
        mine.sum *= expf(mine.top - highest);
        mine.top = highest;
      }
#pragma unroll
      for (int e = 0; e < 8; ++e) mine.sum += expf(wide(x.at[e]) * inverse_temperature - mine.top);
    }
  else
    for (std::int64_t i = threadIdx.x; i < vocab; i += kBlock) take(wide(row[i]));
#pragma unroll
  for (int step = 16; step > 0; step /= 2)
    mine = joined(
        mine, {__shfl_xor_sync(0xffffffffu, mine.top, step), __shfl_xor_sync(0xffffffffu, mine.sum, step)});
  __shared__ float tops[kBlock / 32], sums[kBlock / 32];
  if (threadIdx.x % 32 == 0) {
    tops[threadIdx.x / 32] = mine.top;
    sums[threadIdx.x / 32] = mine.sum;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int i = 1; i < kBlock / 32; ++i) mine = joined(mine, {tops[i], sums[i]});
  const float total = mine.top + logf(mine.sum);
  const std::int64_t target = targets[blockIdx.x];
  log_sum[blockIdx.x] = total;
  logprob[blockIdx.x] = target < 0 ? 0 : wide(row[target]) * inverse_temperature - total;
}

// d logprob / d logits = (onehot(target) - softmax) / temperature
template <typename T>
__global__ void __launch_bounds__(kBlock)
    logprob_backward(T* logits, const std::int64_t* targets, const float* log_sum, const float* to_logprob,
                     std::int64_t vocab, float inverse_temperature) {
  T* row = logits + static_cast<std::int64_t>(blockIdx.x) * vocab;
  const std::int64_t target = targets[blockIdx.x];
  const float total = log_sum[blockIdx.x], by = target < 0 ? 0 : to_logprob[blockIdx.x] * inverse_temperature;
  const auto slope = [&](float x, std::int64_t column) {
    return by == 0 ? 0 : by * ((column == target ? 1.0f : 0.0f) - expf(x * inverse_temperature - total));
  };
  if (vocab % 8 == 0)
    for (std::int64_t i = threadIdx.x * 8; i < vocab; i += kBlock * 8) {
      Eight<T> x = load8(row + i);
#pragma unroll
      for (int e = 0; e < 8; ++e) x.at[e] = narrow<T>(slope(wide(x.at[e]), i + e));
      store8(row + i, x);
    }
  else
    for (std::int64_t i = threadIdx.x; i < vocab; i += kBlock) row[i] = narrow<T>(slope(wide(row[i]), i));
}

}  // namespace
}  // namespace musacoder::kernels

using namespace musacoder::kernels;

extern "C" int mc_logprob_forward(int type, const void* logits, const std::int64_t* targets, float* log_sum,
                                  float* logprob, std::int64_t rows, std::int64_t vocab,
                                  float inverse_temperature, void* stream) {
  if (rows == 0) return 0;
  const auto grid = static_cast<unsigned>(rows);
  if (type == musacoder::llm::kBF16)
    logprob_forward<<<grid, kBlock, 0, stream_of(stream)>>>(static_cast<const bf16*>(logits), targets,
                                                            log_sum, logprob, vocab, inverse_temperature);
  else
    logprob_forward<<<grid, kBlock, 0, stream_of(stream)>>>(static_cast<const float*>(logits), targets,
                                                            log_sum, logprob, vocab, inverse_temperature);
  return launched();
}

extern "C" int mc_logprob_backward(int type, void* logits, const std::int64_t* targets, const float* log_sum,
                                   const float* to_logprob, std::int64_t rows, std::int64_t vocab,
                                   float inverse_temperature, void* stream) {
  if (rows == 0) return 0;
  const auto grid = static_cast<unsigned>(rows);
  if (type == musacoder::llm::kBF16)
    logprob_backward<<<grid, kBlock, 0, stream_of(stream)>>>(static_cast<bf16*>(logits), targets, log_sum,
                                                             to_logprob, vocab, inverse_temperature);
  else
    logprob_backward<<<grid, kBlock, 0, stream_of(stream)>>>(static_cast<float*>(logits), targets, log_sum,
                                                             to_logprob, vocab, inverse_temperature);
  return launched();
}
