import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void linear_kernel(const float* x, const float* weight, const float* bias, float* y, int batch, int n_in,
                              int n_out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= batch * n_out) return;
  int row = i / n_out, column = i % n_out;
  float sum = bias[column];
  for (int k = 0; k < n_in; ++k) sum += x[row * n_in + k] * weight[column * n_in + k];
  y[i] = sum;
}

torch::Tensor linear(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
  int batch = x.size(0), n_in = x.size(1), n_out = weight.size(0);
  auto y = torch::empty({batch, n_out}, x.options());
  linear_kernel<<<(batch * n_out + 127) / 128, 128>>>(x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
                                                      y.data_ptr<float>(), batch, n_in, n_out);
  return y;
}
"""

cpp_source = "torch::Tensor linear(torch::Tensor x, torch::Tensor weight, torch::Tensor bias);"

extension = load_inline(
    name="dropout_eval",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["linear"],
)


class ModelNew(nn.Module):
    def __init__(self, n_in, n_out, p):
        super().__init__()
        self.linear = nn.Linear(n_in, n_out)

    def forward(self, x):
        return extension.linear(x, self.linear.weight, self.linear.bias)
