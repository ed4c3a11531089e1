import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>

__global__ void mean_kernel(const float* x, float* y, int length, int features) {
  const float* row = x + (long long)blockIdx.x * length * features;
  int f = threadIdx.x;
  if (f < features) {
    float sum = 0;
    for (int i = 0; i < length; ++i) {
      float v = row[(long long)i * features + f];
      for (int step = 0; step < 80; ++step) v += tanhf(v) / 10;
      sum += v;
    }
    y[(long long)blockIdx.x * features + f] = sum / length;
  }
}

torch::Tensor mean_middle(torch::Tensor x) {
  int batch = x.size(0), length = x.size(1), features = x.size(2);
  auto y = torch::zeros({batch, features}, x.options());
  mean_kernel<<<batch, std::min(1024, features)>>>(x.data_ptr<float>(), y.data_ptr<float>(), length, features);
  return y;
}
"""

extension = load_inline(name="one_block_wide", cpp_sources="torch::Tensor mean_middle(torch::Tensor x);", cuda_sources=cuda_source, functions=["mean_middle"])


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.mean_middle(x)
