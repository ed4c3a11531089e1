// What the kernels share: eight elements at a time, float32 arithmetic, sums over warps and blocks.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace musacoder::kernels {

using bf16 = __nv_bfloat16;

// Eight neighbours, moved by 16-byte accesses.
template <typename T>
struct alignas(16) Eight {
  T at[8];
};
template <typename T>
__device__ __forceinline__ Eight<T> load8(const T* from) {
  return *reinterpret_cast<const Eight<T>*>(from);
}
template <typename T>
__device__ __forceinline__ void store8(T* to, const Eight<T>& value) {
  *reinterpret_cast<Eight<T>*>(to) = value;
}

__device__ __forceinline__ float wide(float x) { return x; }
__device__ __forceinline__ float wide(bf16 x) { return __bfloat162float(x); }
template <typename T>
__device__ __forceinline__ T narrow(float x);
template <>
__device__ __forceinline__ float narrow<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ bf16 narrow<bf16>(float x) {
  return __float2bfloat16(x);
}
// As if stored and read again.
template <typename T>
__device__ __forceinline__ float rounded(float x) {
  return wide(narrow<T>(x));
}

__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}
__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
  return x;
}
// Over the block's kThreads threads, or over each warp when kThreads is 32. The order of summation is fixed.
template <int kThreads>
__device__ __forceinline__ float group_sum(float x) {
  x = warp_sum(x);
  if constexpr (kThreads > 32) {
    __shared__ float parts[kThreads / 32];
    __syncthreads();  // the last sum may still be read
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = 0;
#pragma unroll
    for (int i = 0; i < kThreads / 32; ++i) x += parts[i];
  }
  return x;
}

// Kernels of a chain may start while the one before them runs (programmatic dependent launch, from sm_90 on):
// what they read that no kernel writes, weights, can be under way by then. Each waits before it touches
// anything else, which also orders it behind all that came before. Without MC_DEPENDENT_LAUNCH these do
// nothing.
__device__ __forceinline__ void let_next_start() {
#if defined(MC_DEPENDENT_LAUNCH) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ __forceinline__ void wait_for_earlier() {
#if defined(MC_DEPENDENT_LAUNCH) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

inline int launched() { return static_cast<int>(cudaGetLastError()); }
inline cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

// Launches a kernel that calls the two above.
template <typename... Parameters, typename... Given>
int launch_chained(void (*kernel)(Parameters...), dim3 grid, unsigned block, cudaStream_t stream,
                   Given... given) {
#ifdef MC_DEPENDENT_LAUNCH
  static const bool can = [] {
    int device = 0, major = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
           major >= 9;
  }();
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(block);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = can ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(given)...);
#else
  kernel<<<grid, block, 0, stream>>>(static_cast<Parameters>(given)...);
  return launched();
#endif
}

}  // namespace musacoder::kernels
