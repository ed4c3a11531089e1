import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void rmsnorm_kernel(const float* x, const float* weight, float* y, int features, float eps) {
  const float* row = x + blockIdx.x * features;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < features; i += 32) sum += row[i] * row[i];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  float scale = rsqrtf(sum / features + eps);
  for (int i = threadIdx.x; i < features; i += 32) y[blockIdx.x * features + i] = row[i] * scale * weight[i];
}

torch::Tensor rmsnorm(torch::Tensor x, torch::Tensor weight, double eps) {
  auto y = torch::empty_like(x);
  rmsnorm_kernel<<<x.size(0), 32>>>(x.data_ptr<float>(), weight.data_ptr<float>(), y.data_ptr<float>(), x.size(1), eps);
  return y;
}
"""

cpp_source = "torch::Tensor rmsnorm(torch::Tensor x, torch::Tensor weight, double eps);"

extension = load_inline(
    name="parameters_renamed",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["rmsnorm"],
)


class ModelNew(nn.Module):
    def __init__(self, features, eps):
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.ones(features))

    def forward(self, x):
        return extension.rmsnorm(x, self.gain, self.eps)
