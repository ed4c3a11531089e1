import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void softplus_kernel(const float* x, float* y, int count) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += blockDim.x * gridDim.x)
    y[i] = fmaxf(x[i], 0.0f) + log1pf(expf(-fabsf(x[i])));
}

torch::Tensor softplus(torch::Tensor x) {
  auto y = torch::empty_like(x);
  int device = 0, processors = 0, per_processor = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_processor, softplus_kernel, 128, 0);
  TORCH_CHECK(processors > 0 && per_processor > 0, "no device properties");
  int count = x.numel();
  int blocks = min((count + 127) / 128, processors * per_processor);
  softplus_kernel<<<blocks, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), count);
  TORCH_CHECK(cudaGetLastError() == cudaSuccess, "launch failed");
  return y;
}
"""

cpp_source = "torch::Tensor softplus(torch::Tensor x);"

extension = load_inline(
    name="grid_stride",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["softplus"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.softplus(x)
