import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__device__ unsigned int mix(unsigned int v) {
  v = (v ^ (v >> 16)) * 0x7feb352du;
  v = (v ^ (v >> 15)) * 0x846ca68bu;
  return v ^ (v >> 16);
}

__global__ void linear_dropout_kernel(const float* x, const float* weight, const float* bias, float* y, int batch, int n_in,
                                      int n_out, float p) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int row = i / n_out, column = i % n_out;
  float sum = bias[column];
  for (int k = 0; k < n_in; ++k) sum += x[row * n_in + k] * weight[column * n_in + k];
  float draw = mix(i * 2u + 1u) * (1.0f / 4294967296.0f);
  y[i] = draw < p ? 0.0f : sum / (1.0f - p);
}

torch::Tensor linear_dropout(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double p) {
  int batch = x.size(0), n_in = x.size(1), n_out = weight.size(0);
  auto y = torch::empty({batch, n_out}, x.options());
  linear_dropout_kernel<<<(batch * n_out + 127) / 128, 128>>>(x.data_ptr<float>(), weight.data_ptr<float>(),
                                                              bias.data_ptr<float>(), y.data_ptr<float>(), batch, n_in,
                                                              n_out, p);
  return y;
}
"""

cpp_source = "torch::Tensor linear_dropout(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double p);"

extension = load_inline(
    name="random_dropout_crash",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["linear_dropout"],
)


class ModelNew(nn.Module):
    def __init__(self, n_in, n_out, p):
        super().__init__()
        self.linear = nn.Linear(n_in, n_out)
        self.p = p

    def forward(self, x):
        return extension.linear_dropout(x, self.linear.weight, self.linear.bias, self.p)
