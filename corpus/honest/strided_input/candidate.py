import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void scale_kernel(const float* x, float* y, int rows, int columns, int64_t row_stride, int64_t column_stride) {
  int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
  if (c < columns) y[r * columns + c] = x[r * row_stride + c * column_stride] * 3.0f - 1.0f;
}

torch::Tensor scale(torch::Tensor x) {
  int rows = x.size(0), columns = x.size(1);
  auto y = torch::empty({rows, columns}, x.options());
  scale_kernel<<<dim3((columns + 31) / 32, rows), 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), rows, columns,
                                                        x.stride(0), x.stride(1));
  return y;
}
"""

cpp_source = "torch::Tensor scale(torch::Tensor x);"

extension = load_inline(
    name="strided_input",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["scale"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.scale(x)
