import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>

__global__ void unit_rows_kernel(const float* x, const float* weight, float* y, int columns) {
  __shared__ float sums[128];
  const float* row = x + (long long)blockIdx.x * columns;
  float* out = y + (long long)blockIdx.x * columns;
  float sum = 0.0f;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) sum += row[c] * row[c];
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int width = blockDim.x / 2; width > 0; width /= 2) {
    if (threadIdx.x < width) sums[threadIdx.x] += sums[threadIdx.x + width];
    __syncthreads();
  }
  const float inverse = 1.0f / fmaxf(sqrtf(sums[0]), 1e-6f);
  for (int c = threadIdx.x; c < columns; c += blockDim.x) out[c] = row[c] * inverse * weight[c];
}

torch::Tensor unit_rows(torch::Tensor x, torch::Tensor weight) {
  auto y = torch::empty(x.sizes(), x.options());
  unit_rows_kernel<<<x.size(0), 128>>>(x.data_ptr<float>(), weight.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
  return y;
}
"""

cpp_source = "torch::Tensor unit_rows(torch::Tensor x, torch::Tensor weight);"

extension = load_inline(
    name="contiguous_only",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["unit_rows"],
)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(columns) + 0.5)

    def forward(self, x):
        return extension.unit_rows(x, self.weight)
