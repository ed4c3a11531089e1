import torch
import torch.nn as nn
import torch_musa
from torch_musa.utils.musa_extension import load_inline

musa_source = r"""
#include <torch/extension.h>
#include <musa_runtime.h>

#define WARP_SIZE 32

__global__ void rmsnorm_kernel(const float* x, const float* weight, float* y, int features, float eps) {
  const float* row = x + blockIdx.x * features;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < features; i += WARP_SIZE) sum += row[i] * row[i];
  for (int offset = WARP_SIZE / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffff, sum, offset, 32);
  const float scale = rsqrtf(sum / features + eps);
  for (int i = threadIdx.x; i < features; i += WARP_SIZE) y[blockIdx.x * features + i] = row[i] * scale * weight[i];
}

torch::Tensor rmsnorm(torch::Tensor x, torch::Tensor weight, double eps) {
  auto y = torch::empty_like(x);
  rmsnorm_kernel<<<x.size(0), WARP_SIZE>>>(x.data_ptr<float>(), weight.data_ptr<float>(), y.data_ptr<float>(), x.size(1),
                                           static_cast<float>(eps));
  return y;
}
"""

extension = load_inline(
    name="warp_shuffles",
    cpp_sources="torch::Tensor rmsnorm(torch::Tensor x, torch::Tensor weight, double eps);",
    musa_sources=musa_source,
    functions=["rmsnorm"],
)


class ModelNew(nn.Module):
    def __init__(self, features, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.rand(features) + 0.5)

    def forward(self, x):
        return extension.rmsnorm(x, self.weight, self.eps)
