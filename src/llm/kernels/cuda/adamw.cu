// AdamW over many tensors in one launch, with the gradients' global norm found and applied on the device.
#include "llm/kernels/cuda/common.cuh"
#include "llm/kernels/cuda/kernels.h"

namespace musacoder::kernels {
namespace {

using llm::AdamWTensor;
using llm::kAdamWBlock;
constexpr int kBlock = 512;

// The tensor that block `block` works on: the last that begins at or before it.
__device__ __forceinline__ AdamWTensor tensor_of(const AdamWTensor* tensors, std::int64_t count,
                                                 std::int64_t block) {
  std::int64_t low = 0, high = count - 1;
  while (low < high) {
    const std::int64_t middle = (low + high + 1) / 2;
    if (tensors[middle].first_block <= block)
      low = middle;
    else
      high = middle - 1;
  }
  return tensors[low];
}

template <typename T>
__global__ void __launch_bounds__(kBlock)
    square_sums(const AdamWTensor* tensors, std::int64_t count, float* partial) {
  const AdamWTensor one = tensor_of(tensors, count, blockIdx.x);
  const std::int64_t from = (blockIdx.x - one.first_block) * kAdamWBlock,
                     to = from + kAdamWBlock < one.count ? from + kAdamWBlock : one.count;
  const T* gradient = static_cast<const T*>(one.gradient);
  float sum = 0;
  for (std::int64_t i = from + threadIdx.x; i < to; i += kBlock) {
    const float g = wide(gradient[i]);
    sum += g * g;
  }
  sum = group_sum<kBlock>(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kBlock) norm_of(const float* partial, std::int64_t blocks, float* norm) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < blocks; i += kBlock) sum += partial[i];
  __shared__ double sums[kBlock];
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int step = kBlock / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) sums[threadIdx.x] += sums[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) *norm = static_cast<float>(sqrt(sums[0]));
}

struct Factors {
  float limit, learning_rate, beta1, beta2, epsilon, weight_decay, correction1, correction2_root;
};

template <typename T>
__global__ void __launch_bounds__(kBlock)
    adamw(const AdamWTensor* tensors, std::int64_t count, const float* norm, Factors by) {
  const AdamWTensor one = tensor_of(tensors, count, blockIdx.x);
  const std::int64_t from = (blockIdx.x - one.first_block) * kAdamWBlock,
                     to = from + kAdamWBlock < one.count ? from + kAdamWBlock : one.count;
  T* parameter = static_cast<T*>(one.parameter);
  const T* gradient = static_cast<const T*>(one.gradient);
  const float scale = norm ? fminf(1.0f, by.limit / (*norm + 1e-6f)) : 1.0f;
  for (std::int64_t i = from + threadIdx.x; i < to; i += kBlock) {
    const float g = wide(gradient[i]) * scale;
    const float m = one.first[i] + (1 - by.beta1) * (g - one.first[i]),
                v = by.beta2 * one.second[i] + (1 - by.beta2) * g * g;
    float p = one.master ? one.master[i] : wide(parameter[i]);
    p -= by.learning_rate * by.weight_decay * p;
    p -= by.learning_rate / by.correction1 * m / (sqrtf(v) / by.correction2_root + by.epsilon);
    one.first[i] = m;
    one.second[i] = v;
    if (one.master) one.master[i] = p;
    parameter[i] = narrow<T>(p);
  }
}

}  // namespace
}  // namespace musacoder::kernels

using namespace musacoder::kernels;

extern "C" int mc_gradient_norm(int type, const musacoder::llm::AdamWTensor* tensors, std::int64_t count,
                                std::int64_t blocks, float* partial, float* norm, void* stream) {
  const auto run = type == musacoder::llm::kBF16 ? square_sums<bf16> : square_sums<float>;
  run<<<static_cast<unsigned>(blocks), kBlock, 0, stream_of(stream)>>>(tensors, count, partial);
  norm_of<<<1, kBlock, 0, stream_of(stream)>>>(partial, blocks, norm);
  return launched();
}

extern "C" int mc_adamw(int type, const musacoder::llm::AdamWTensor* tensors, std::int64_t count,
                        std::int64_t blocks, const float* norm, float limit, float learning_rate, float beta1,
                        float beta2, float epsilon, float weight_decay, float correction1,
                        float correction2_root, void* stream) {
  const auto run = type == musacoder::llm::kBF16 ? adamw<bf16> : adamw<float>;
  run<<<static_cast<unsigned>(blocks), kBlock, 0, stream_of(stream)>>>(
      tensors, count, norm,
      Factors{limit, learning_rate, beta1, beta2, epsilon, weight_decay, correction1, correction2_root});
  return launched();
}

extern "C" const char* mc_cuda_error_text(int error) {
  return cudaGetErrorString(static_cast<cudaError_t>(error));
}
