// silu(gate) up of a common product of gate and up, and its gradient.
#include "llm/kernels/cuda/common.cuh"
#include "llm/kernels/cuda/kernels.h"

namespace musacoder::kernels {
namespace {

constexpr int kBlock = 256;

template <typename T>
__global__ void __launch_bounds__(kBlock)
    swiglu_forward(const T* gate_up, T* out, std::int64_t vectors, int inner) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kBlock + threadIdx.x;
  if (i >= vectors) return;
  const int each = inner / 8;
  const T* from = gate_up + (i / each) * 2 * inner + i % each * 8;
  const Eight<T> gate = load8(from), up = load8(from + inner);
  Eight<T> result;
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    const float g = wide(gate.at[e]);
    result.at[e] = narrow<T>(rounded<T>(g / (1 + expf(-g))) * wide(up.at[e]));
  }
  store8(out + i * 8, result);
}

template <typename T>
__global__ void __launch_bounds__(kBlock)
    swiglu_backward(const T* to_out, const T* gate_up, T* to_gate_up, std::int64_t vectors, int inner) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kBlock + threadIdx.x;
  if (i >= vectors) return;
  const int each = inner / 8;
  const std::int64_t at = (i / each) * 2 * inner + i % each * 8;
  const Eight<T> gate = load8(gate_up + at), up = load8(gate_up + at + inner), given = load8(to_out + i * 8);
  Eight<T> to_gate, to_up;
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    const float g = wide(gate.at[e]), slope = wide(given.at[e]), sigma = 1 / (1 + expf(-g));
    to_up.at[e] = narrow<T>(slope * rounded<T>(g * sigma));
    to_gate.at[e] = narrow<T>(slope * wide(up.at[e]) * sigma * (1 + g * (1 - sigma)));
  }
  store8(to_gate_up + at, to_gate);
  store8(to_gate_up + at + inner, to_up);
}

template <typename T>
int forward(const void* gate_up, void* out, std::int64_t rows, std::int64_t inner, void* stream) {
  const std::int64_t vectors = rows * inner / 8;
  swiglu_forward<T><<<static_cast<unsigned>((vectors + kBlock - 1) / kBlock), kBlock, 0, stream_of(stream)>>>(
      static_cast<const T*>(gate_up), static_cast<T*>(out), vectors, static_cast<int>(inner));
  return launched();
}
template <typename T>
int backward(const void* to_out, const void* gate_up, void* to_gate_up, std::int64_t rows, std::int64_t inner,
             void* stream) {
  const std::int64_t vectors = rows * inner / 8;
  swiglu_backward<T>
      <<<static_cast<unsigned>((vectors + kBlock - 1) / kBlock), kBlock, 0, stream_of(stream)>>>(
          static_cast<const T*>(to_out), static_cast<const T*>(gate_up), static_cast<T*>(to_gate_up), vectors,
          static_cast<int>(inner));
  return launched();
}

}  // namespace
}  // namespace musacoder::kernels

using namespace musacoder::kernels;

extern "C" int mc_swiglu_forward(int type, const void* gate_up, void* out, std::int64_t rows,
                                 std::int64_t inner, void* stream) {
  if (inner % 8 != 0 || inner < 8) return cudaErrorInvalidValue;
  return (type == musacoder::llm::kBF16 ? forward<bf16> : forward<float>)(gate_up, out, rows, inner, stream);
}

extern "C" int mc_swiglu_backward(int type, const void* to_out, const void* gate_up, void* to_gate_up,
                                  std::int64_t rows, std::int64_t inner, void* stream) {
  if (inner % 8 != 0 || inner < 8) return cudaErrorInvalidValue;
  return (type == musacoder::llm::kBF16 ? backward<bf16> : backward<float>)(to_out, gate_up, to_gate_up, rows,
                                                                            inner, stream);
}
