import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void layer_kernel(const float* x, const float* weight, const float* bias, float* y, int batch, int n_in, int n_out,
                             int kind) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= batch * n_out) return;
  int row = i / n_out, column = i % n_out;
  float sum = bias[column];
  for (int k = 0; k < n_in; ++k) sum += x[row * n_in + k] * weight[column * n_in + k];
  y[i] = kind == 0 ? fmaxf(sum, 0.0f) : kind == 1 ? tanhf(sum) : sum;
}

torch::Tensor layer(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, int64_t kind) {
  int batch = x.size(0), n_in = x.size(1), n_out = weight.size(0);
  auto y = torch::empty({batch, n_out}, x.options());
  layer_kernel<<<(batch * n_out + 127) / 128, 128>>>(x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
                                                     y.data_ptr<float>(), batch, n_in, n_out, kind);
  return y;
}
"""

cpp_source = "torch::Tensor layer(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, int64_t kind);"

extension = load_inline(
    name="renamed_layers",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["layer"],
)


class ModelNew(nn.Module):
    def __init__(self, n_in, hidden, n_out):
        super().__init__()
        sizes = [n_in, hidden, hidden, n_out]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))

    def forward(self, x):
        for kind, linear in enumerate(self.layers):
            x = extension.layer(x, linear.weight, linear.bias, kind)
        return x
