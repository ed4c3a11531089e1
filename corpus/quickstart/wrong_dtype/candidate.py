import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_fp16.h>

__global__ void sum_half_kernel(const __half* x, float* out, int rows, int columns) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int c = 0; c < columns; ++c) sum += __half2float(x[row * columns + c]);
  out[row] = sum;
}

torch::Tensor sum_half(torch::Tensor x) {
  auto out = torch::empty({x.size(0)}, x.options().dtype(torch::kFloat32));
  sum_half_kernel<<<(x.size(0) + 63) / 64, 64>>>(reinterpret_cast<const __half*>(x.data_ptr<at::Half>()),
                                                 out.data_ptr<float>(), x.size(0), x.size(1));
  return out;
}
"""

cpp_source = "torch::Tensor sum_half(torch::Tensor x);"

extension = load_inline(
    name="wrong_dtype",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["sum_half"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.sum_half(x)
