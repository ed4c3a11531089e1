import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void row_sum_kernel(const float* x, float* out, int rows, int columns) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const float4* vectors = reinterpret_cast<const float4*>(x + row * columns);
  float sum = 0.0f;
  for (int i = 0; i < columns / 4; ++i) {
    float4 v = vectors[i];
    sum += v.x + v.y + v.z + v.w;
  }
  for (int c = columns / 4 * 4; c < columns; ++c) sum += x[row * columns + c];
  out[row] = sum;
}

torch::Tensor row_sum(torch::Tensor x) {
  int rows = x.size(0), columns = x.size(1);
  auto out = torch::empty({rows}, x.options());
  row_sum_kernel<<<(rows + 63) / 64, 64>>>(x.data_ptr<float>(), out.data_ptr<float>(), rows, columns);
  return out;
}
"""

cpp_source = "torch::Tensor row_sum(torch::Tensor x);"

extension = load_inline(
    name="misaligned",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["row_sum"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.row_sum(x)
