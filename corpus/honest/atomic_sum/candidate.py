import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void mse_kernel(const float* a, const float* b, float* out, int count, float scale) {
  float sum = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    float d = a[i] - b[i];
    sum += d * d;
  }
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffu, sum, offset);
  if ((threadIdx.x & 31) == 0) atomicAdd(out, sum * scale);
}

torch::Tensor mse(torch::Tensor a, torch::Tensor b) {
  auto out = torch::zeros({}, a.options());
  int count = a.numel();
  mse_kernel<<<8, 128>>>(a.data_ptr<float>(), b.data_ptr<float>(), out.data_ptr<float>(), count, 1.0f / count);
  return out;
}
"""

cpp_source = "torch::Tensor mse(torch::Tensor a, torch::Tensor b);"

extension = load_inline(
    name="atomic_sum",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["mse"],
)


class ModelNew(nn.Module):
    def forward(self, prediction, target):
        return extension.mse(prediction, target)
