import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void variance_kernel(const float* x, float* out, int rows, int columns) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float mean = 0.0f, sum = 0.0f;
  for (int c = 0; c < columns; ++c) mean += x[row * columns + c];
  mean /= columns;
  for (int c = 0; c < columns; ++c) sum += (x[row * columns + c] - mean) * (x[row * columns + c] - mean);
  out[row] = sum / columns;
}

torch::Tensor variance(torch::Tensor x) {
  auto out = torch::empty({x.size(0)}, x.options());
  variance_kernel<<<(x.size(0) + 63) / 64, 64>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(0), x.size(1));
  return out;
}
"""

cpp_source = "torch::Tensor variance(torch::Tensor x);"

extension = load_inline(
    name="wrong_values",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["variance"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.variance(x)
