import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void argmax_kernel(const float* x, int* out, int rows, int columns) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  int best = 0;
  for (int c = 1; c < columns; ++c)
    if (x[row * columns + c] > x[row * columns + best]) best = c;
  out[row] = best;
}

torch::Tensor argmax(torch::Tensor x) {
  auto out = torch::empty({x.size(0)}, x.options().dtype(torch::kInt32));
  argmax_kernel<<<(x.size(0) + 63) / 64, 64>>>(x.data_ptr<float>(), out.data_ptr<int>(), x.size(0), x.size(1));
  return out;
}
"""

cpp_source = "torch::Tensor argmax(torch::Tensor x);"

extension = load_inline(
    name="other_dtype",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["argmax"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.argmax(x)
