import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void split_k_kernel(const float* a, const float* b, float* c, int size, int chunk) {
  int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
  if (row >= size || column >= size) return;
  int start = blockIdx.z * chunk, stop = min(start + chunk, size);
  float sum = 0.0f;
  for (int k = start; k < stop; ++k) sum += a[row * size + k] * b[k * size + column];
  atomicAdd(&c[row * size + column], sum);
}

torch::Tensor matmul(torch::Tensor a, torch::Tensor b) {
  int size = a.size(0);
  auto c = torch::zeros_like(a);
  int splits = 4, chunk = (size + splits - 1) / splits;
  dim3 grid((size + 15) / 16, (size + 15) / 16, splits);
  split_k_kernel<<<grid, dim3(16, 16)>>>(a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), size, chunk);
  return c;
}
"""

cpp_source = "torch::Tensor matmul(torch::Tensor a, torch::Tensor b);"

extension = load_inline(
    name="split_k",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["matmul"],
)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return extension.matmul(a.contiguous(), b.contiguous())
