import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void scan_kernel(const float* x, float* y, int columns) {
  const unsigned full = 0xffffffffu;
  int lane = threadIdx.x;
  float carry = 0.0f;
  for (int start = 0; start < columns; start += 32) {
    int c = start + lane;
    float v = c < columns ? x[blockIdx.x * columns + c] : 0.0f;
    for (int offset = 1; offset < 32; offset *= 2) {
      float below = __shfl_up_sync(full, v, offset);
      if (lane >= offset) v += below;
    }
    v += carry;
    if (c < columns) y[blockIdx.x * columns + c] = v;
    carry = __shfl_sync(full, v, 31);
  }
}

torch::Tensor cumulative_sum(torch::Tensor x) {
  auto y = torch::empty_like(x);
  scan_kernel<<<x.size(0), 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
  return y;
}
"""

cpp_source = "torch::Tensor cumulative_sum(torch::Tensor x);"

extension = load_inline(
    name="warp_scan",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["cumulative_sum"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.cumulative_sum(x)
