import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void partial_kernel(const float* x, float* partial, int count) {
  __shared__ float sums[128];
  float sum = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) sum += x[i];
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int width = 64; width > 0; width >>= 1) {
    if (threadIdx.x < width) sums[threadIdx.x] += sums[threadIdx.x + width];
    __syncthreads();
  }
  if (threadIdx.x == 0) partial[blockIdx.x] = sums[0];
}

__global__ void finish_kernel(const float* partial, float* out, int blocks) {
  float sum = 0.0f;
  for (int i = 0; i < blocks; ++i) sum += partial[i];
  *out = sum;
}

torch::Tensor sum_all(torch::Tensor x, torch::Tensor workspace) {
  auto out = torch::empty({}, x.options());
  int blocks = workspace.numel();
  partial_kernel<<<blocks, 128>>>(x.data_ptr<float>(), workspace.data_ptr<float>(), x.numel());
  finish_kernel<<<1, 1>>>(workspace.data_ptr<float>(), out.data_ptr<float>(), blocks);
  return out;
}
"""

cpp_source = "torch::Tensor sum_all(torch::Tensor x, torch::Tensor workspace);"

extension = load_inline(
    name="workspace_cache",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["sum_all"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.workspaces = {}

    def forward(self, x):
        key = (x.device, x.dtype)
        if key not in self.workspaces:
            self.workspaces[key] = torch.empty(16, dtype=x.dtype, device=x.device)
        return extension.sum_all(x, self.workspaces[key])
