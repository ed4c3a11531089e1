import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>

__global__ void square_plus_kernel(const float* x, float* y, float b, int columns, int64_t row_stride, int64_t column_stride) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
  if (c >= columns) return;
  const float value = x[r * row_stride + c * column_stride];
  y[r * columns + c] = (value + sqrtf(value * value + b)) * 0.5f;
}

torch::Tensor square_plus(torch::Tensor x, double b) {
  const int rows = x.size(0), columns = x.size(1);
  auto y = torch::empty({rows, columns}, x.options());
  square_plus_kernel<<<dim3((columns + 63) / 64, rows), 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), b, columns, x.stride(0), x.stride(1));
  return y;
}
"""

cpp_source = "torch::Tensor square_plus(torch::Tensor x, double b);"

extension = load_inline(
    name="required_layout_kept",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["square_plus"],
)


class ModelNew(nn.Module):
    def __init__(self, b):
        super().__init__()
        self.b = b

    def forward(self, x):
        return extension.square_plus(x, self.b)
