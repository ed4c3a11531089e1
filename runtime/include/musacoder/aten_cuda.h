// ATen/cuda/*: the current device, its stream and properties, atomics on torch's element types.
#ifndef MUSACODER_SLIM_MUSACODER_ATEN_CUDA_H
#define MUSACODER_SLIM_MUSACODER_ATEN_CUDA_H

#include <cublas_v2.h>

#ifndef MUSACODER_FULL_HEADERS
#include "aten.h"
#endif
#include "cuda.h"

namespace at::cuda {
inline std::int64_t getNumGPUs() { return 1; }
inline bool is_available() { return true; }
inline int warp_size() { return 32; }
inline cudaDeviceProp* getDeviceProperties(c10::DeviceIndex device) {
  static cudaDeviceProp properties = [] {
    cudaDeviceProp p{};
    c10::cuda::CUDAStream::check(cudaGetDeviceProperties(&p, 0));
    return p;
  }();
  c10::cuda::CUDAGuard::check(device);
  return &properties;
}
inline cudaDeviceProp* getCurrentDeviceProperties() { return getDeviceProperties(0); }
inline cublasHandle_t getCurrentCUDABlasHandle() {
  static cublasHandle_t handle = [] {
    cublasHandle_t h = nullptr;
    cublasCreate(&h);
    return h;
  }();
  return handle;
}
}  // namespace at::cuda
#define AT_CUDA_CHECK(EXPR) C10_CUDA_CHECK(EXPR)
#define TORCH_CUDABLAS_CHECK(EXPR) TORCH_CHECK((EXPR) == CUBLAS_STATUS_SUCCESS, "CUDA error when calling `" #EXPR "`")

#ifdef __CUDACC__
template <class T>
static inline __device__ T gpuAtomicAdd(T* address, T value) { return atomicAdd(address, value); }
template <class T>
static inline __device__ void gpuAtomicAddNoReturn(T* address, T value) { atomicAdd(address, value); }
#ifndef MUSACODER_LEAN_HALF
static inline __device__ c10::Half gpuAtomicAdd(c10::Half* address, c10::Half value) {
  return atomicAdd(reinterpret_cast<__half*>(address), static_cast<__half>(value));
}
static inline __device__ c10::BFloat16 gpuAtomicAdd(c10::BFloat16* address, c10::BFloat16 value) {
  return atomicAdd(reinterpret_cast<__nv_bfloat16*>(address), static_cast<__nv_bfloat16>(value));
}
#endif
#endif
#endif
