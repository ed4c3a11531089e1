import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_fp16.h>

__global__ void affine_kernel(const __half* x, const float* scale, float* y, int count, int columns) {
  int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
  if (i + 1 < count) {
    float2 v = __half22float2(*reinterpret_cast<const __half2*>(x + i));
    y[i] = v.x * scale[i % columns] + 0.5f;
    y[i + 1] = v.y * scale[(i + 1) % columns] + 0.5f;
  } else if (i < count) {
    y[i] = __half2float(x[i]) * scale[i % columns] + 0.5f;
  }
}

torch::Tensor affine(torch::Tensor x, torch::Tensor scale) {
  auto y = torch::empty(x.sizes(), x.options().dtype(torch::kFloat));
  int count = x.numel(), pairs = (count + 1) / 2;
  affine_kernel<<<(pairs + 127) / 128, 128>>>(reinterpret_cast<const __half*>(x.data_ptr<at::Half>()), scale.data_ptr<float>(),
                                              y.data_ptr<float>(), count, x.size(1));
  return y;
}
"""

cpp_source = "torch::Tensor affine(torch::Tensor x, torch::Tensor scale);"

extension = load_inline(
    name="half2_loads",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["affine"],
)


class ModelNew(nn.Module):
    def forward(self, x, scale):
        return extension.affine(x, scale)
