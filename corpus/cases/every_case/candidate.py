import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>

template <typename T>
__global__ void unit_rows_kernel(const T* x, const T* weight, T* y, int columns) {
  __shared__ float sums[128];
  const T* row = x + (long long)blockIdx.x * columns;
  T* out = y + (long long)blockIdx.x * columns;
  float sum = 0.0f;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) {
    const float value = static_cast<float>(row[c]);
    sum += value * value;
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int width = blockDim.x / 2; width > 0; width /= 2) {
    if (threadIdx.x < width) sums[threadIdx.x] += sums[threadIdx.x + width];
    __syncthreads();
  }
  const float inverse = 1.0f / fmaxf(sqrtf(sums[0]), 1e-6f);
  for (int c = threadIdx.x; c < columns; c += blockDim.x)
    out[c] = static_cast<T>(static_cast<float>(row[c]) * inverse * static_cast<float>(weight[c]));
}

torch::Tensor unit_rows(torch::Tensor x, torch::Tensor weight) {
  x = x.contiguous();
  auto y = torch::empty_like(x);
  if (x.numel() == 0) return y;
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "unit_rows", ([&] {
    unit_rows_kernel<scalar_t><<<x.size(0), 128>>>(x.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(),
                                                   x.size(1));
  }));
  return y;
}
"""

cpp_source = "torch::Tensor unit_rows(torch::Tensor x, torch::Tensor weight);"

extension = load_inline(
    name="every_case",
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
