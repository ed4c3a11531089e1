import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

__global__ void leaky_relu_kernel(const float* x, float* y, float slope, int64_t count) {
  int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) y[i] = x[i] > 0.0f ? x[i] : slope * x[i];
}

torch::Tensor leaky_relu(torch::Tensor x, double slope) {
  const c10::cuda::CUDAGuard guard(x.device());
  auto y = torch::empty_like(x);
  const int64_t count = x.numel();
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  leaky_relu_kernel<<<(count + 255) / 256, 256, 0, stream>>>(x.data_ptr<float>(), y.data_ptr<float>(),
                                                            static_cast<float>(slope), count);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}
"""

cpp_source = "torch::Tensor leaky_relu(torch::Tensor x, double slope);"

extension = load_inline(
    name="current_stream",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["leaky_relu"],
)


class ModelNew(nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def forward(self, x):
        return extension.leaky_relu(x, self.slope)
