import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void wait_kernel(const float* x, float* y, volatile int* flag, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  while (*flag == 0) {
  }
  if (i < count) y[i] = fmaxf(x[i], 0.0f);
}

torch::Tensor relu(torch::Tensor x) {
  auto y = torch::empty_like(x);
  auto flag = torch::zeros({1}, x.options().dtype(torch::kInt32));
  int count = x.numel();
  wait_kernel<<<(count + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), flag.data_ptr<int>(), count);
  return y;
}
"""

cpp_source = "torch::Tensor relu(torch::Tensor x);"

extension = load_inline(
    name="hangs_kernel",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["relu"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.relu(x)
