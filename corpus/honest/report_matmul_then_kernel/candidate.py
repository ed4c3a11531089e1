import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void bias_relu_kernel(const float* x, const float* bias, float* y, int count, int columns) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = fmaxf(x[i] + bias[i % columns], 0.0f);
}

torch::Tensor bias_relu(torch::Tensor x, torch::Tensor bias) {
  auto y = torch::empty_like(x);
  int count = x.numel();
  bias_relu_kernel<<<(count + 255) / 256, 256>>>(x.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), count, x.size(1));
  return y;
}
"""

cpp_source = "torch::Tensor bias_relu(torch::Tensor x, torch::Tensor bias);"

extension = load_inline(
    name="report_matmul",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["bias_relu"],
)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(columns))

    def forward(self, a, b):
        return extension.bias_relu(torch.matmul(a, b), self.bias)
