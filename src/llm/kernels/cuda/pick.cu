// Rows by number, and tokens out of logits. A block takes a row of logits; every sum's order is given by the
// vocabulary alone.
#include "llm/kernels/cuda/common.cuh"
#include "llm/kernels/cuda/decode.h"

namespace musacoder::kernels {
namespace {

constexpr int kBlock = 1024;

template <typename T>
__global__ void __launch_bounds__(128)
    embed(const T* table, const std::int32_t* ids, T* out, std::int64_t dim) {
  let_next_start();
  wait_for_earlier();
  const T* from = table + static_cast<std::int64_t>(ids[blockIdx.x]) * dim;
  for (std::int64_t i = threadIdx.x; i < dim; i += 128) out[blockIdx.x * dim + i] = from[i];
}

template <typename T>
__global__ void __launch_bounds__(128)
    take_rows(const T* x, const MusaCoderPick* picks, T* out, std::int64_t dim) {
  let_next_start();
  wait_for_earlier();
  const std::int64_t row = picks[blockIdx.x].row;
  for (std::int64_t i = threadIdx.x; i < dim; i += 128)
    out[blockIdx.x * dim + i] = row < 0 ? narrow<T>(0.0f) : x[row * dim + i];
}

// Floats in the order of unsigned integers.
__device__ __forceinline__ unsigned ordered(float x) {
  const unsigned bits = __float_as_uint(x);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

struct Best {
  float value;
  int at;
};
__device__ __forceinline__ Best better(Best a, Best b) {
  return b.value > a.value || (b.value == a.value && b.at < a.at) ? b : a;
}

__global__ void __launch_bounds__(kBlock)
    pick(const float* all, const MusaCoderPick* picks, MusaCoderPicked* out, std::int64_t vocab) {
  let_next_start();
  wait_for_earlier();
  const MusaCoderPick by = picks[blockIdx.x];
  if (by.row < 0) return;
  const float* logits = all + static_cast<std::int64_t>(blockIdx.x) * vocab;
  const float inverse = by.temperature > 0 ? 1 / by.temperature : 1.0f;

  __shared__ Best bests[kBlock / 32];
  Best best{-INFINITY, 0x7fffffff};
  for (std::int64_t i = threadIdx.x; i < vocab; i += kBlock)
    best = better(best, {logits[i], static_cast<int>(i)});
#pragma unroll
  for (int step = 16; step > 0; step /= 2)
    best = better(
        best, {__shfl_xor_sync(0xffffffffu, best.value, step), __shfl_xor_sync(0xffffffffu, best.at, step)});
  if (threadIdx.x % 32 == 0) bests[threadIdx.x / 32] = best;
  __syncthreads();
  best = bests[0];
  for (int i = 1; i < kBlock / 32; ++i) best = better(best, bests[i]);
  const float top = best.value * inverse;

  // Masses relative to the likeliest's.
  const auto mass_from = [&](unsigned limit) {
    float sum = 0;
    for (std::int64_t i = threadIdx.x; i < vocab; i += kBlock) {
      const float y = logits[i] * inverse;
      if (ordered(y) >= limit) sum += expf(y - top);
    }
    return group_sum<kBlock>(sum);
  };
  const auto count_from = [&](unsigned limit) {
    float count = 0;  // exact: fewer than 2^24 tokens
    for (std::int64_t i = threadIdx.x; i < vocab; i += kBlock)
      count += ordered(logits[i] * inverse) >= limit ? 1.0f : 0.0f;
    return group_sum<kBlock>(count);
  };
  // The largest limit at which `reached` still holds; it holds at 0.
  const auto highest = [&](const auto& reached) {
    unsigned limit = 0;
    for (int bit = 31; bit >= 0; --bit)
      if (reached(limit | 1u << bit)) limit |= 1u << bit;
    return limit;
  };

  const float whole = mass_from(0);
  const float log_sum = top + logf(whole);
  if (by.temperature <= 0 || !isfinite(log_sum)) {
    if (threadIdx.x == 0) out[blockIdx.x] = {best.at, isfinite(log_sum) ? top - log_sum : NAN};
    return;
  }
  unsigned limit = 0;
  float kept = whole;
  if (by.top_k > 0 && by.top_k < vocab) {
    limit = highest([&](unsigned at) { return count_from(at) >= static_cast<float>(by.top_k); });
    kept = mass_from(limit);
  }
  if (by.top_p < 1) {
    const float wanted = by.top_p * kept;
    const unsigned at = highest([&](unsigned at) { return mass_from(at) >= wanted; });
    limit = at > limit ? at : limit;
  }
  if (by.min_p > 0) {
    const unsigned at = ordered(top + logf(by.min_p));
    limit = at > limit ? at : limit;
  }
  if (limit > ordered(top)) limit = ordered(top);

  // A thread's tokens are neighbours, so that the running sum goes by ids.
  const std::int64_t each = (vocab + kBlock - 1) / kBlock, from = threadIdx.x * each,
                     to = from + each < vocab ? from + each : vocab;
  float mine = 0;
  for (std::int64_t i = from; i < to; ++i) {
    const float y = logits[i] * inverse;
    if (ordered(y) >= limit) mine += expf(y - top);
  }
  __shared__ float before[kBlock], all_kept;
  before[threadIdx.x] = mine;
  __shared__ int chosen;
  __syncthreads();
  if (threadIdx.x < 32) {  // exclusive sums, 32 threads' worth to a lane
    float sum = 0;
    for (int i = 0; i < 32; ++i) sum += before[threadIdx.x * 32 + i];
    float running = sum;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const float other = __shfl_up_sync(0xffffffffu, running, step);
      if (static_cast<int>(threadIdx.x) >= step) running += other;
    }
    if (threadIdx.x == 31) all_kept = running;
    running -= sum;
    for (int i = 0; i < 32; ++i) {
      const float one = before[threadIdx.x * 32 + i];
      before[threadIdx.x * 32 + i] = running;
      running += one;
    }
    if (threadIdx.x == 0) chosen = -1;
  }
  __syncthreads();
  // The last token whose running sum begins at or below the drawn place and that is kept.
  const float drawn = by.uniform * all_kept;
  int candidate = -1;
  float running = before[threadIdx.x];
  if (mine > 0 && running <= drawn)
    for (std::int64_t i = from; i < to; ++i) {
      const float y = logits[i] * inverse;
      if (ordered(y) < limit) continue;
      const float mass = expf(y - top);
      if (mass > 0 && running <= drawn) candidate = static_cast<int>(i);
      running += mass;
    }
  if (candidate >= 0) atomicMax(&chosen, candidate);
  __syncthreads();
  if (threadIdx.x == 0) {
    const int token = chosen >= 0 ? chosen : best.at;
    out[blockIdx.x] = {token, logits[token] * inverse - log_sum};
  }
}

}  // namespace
}  // namespace musacoder::kernels

using namespace musacoder::kernels;

extern "C" int mc_embed(int type, const void* table, const std::int32_t* ids, void* out, std::int64_t rows,
                        std::int64_t dim, void* stream) {
  if (rows == 0) return 0;
  const auto grid = static_cast<unsigned>(rows);
  if (type == musacoder::llm::kBF16)
    return launch_chained(embed<bf16>, dim3(grid), 128, stream_of(stream), static_cast<const bf16*>(table),
                          ids, static_cast<bf16*>(out), dim);
  return launch_chained(embed<float>, dim3(grid), 128, stream_of(stream), static_cast<const float*>(table),
                        ids, static_cast<float*>(out), dim);
}

extern "C" int mc_take_rows(int type, const void* x, const MusaCoderPick* picks, void* out,
                            std::int64_t count, std::int64_t dim, void* stream) {
  if (count == 0) return 0;
  const auto grid = static_cast<unsigned>(count);
  if (type == musacoder::llm::kBF16)
    return launch_chained(take_rows<bf16>, dim3(grid), 128, stream_of(stream), static_cast<const bf16*>(x),
                          picks, static_cast<bf16*>(out), dim);
  return launch_chained(take_rows<float>, dim3(grid), 128, stream_of(stream), static_cast<const float*>(x),
                        picks, static_cast<float*>(out), dim);
}

extern "C" int mc_pick(const float* logits, const MusaCoderPick* picks, MusaCoderPicked* out,
                       std::int64_t count, std::int64_t vocab, void* stream) {
  if (count == 0) return 0;
  return launch_chained(pick, dim3(static_cast<unsigned>(count)), kBlock, stream_of(stream), logits, picks,
                        out, vocab);
}
