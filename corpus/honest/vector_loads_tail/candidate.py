import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void relu_vector_kernel(const float* __restrict__ x, float* __restrict__ y, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int vectors = count / 4;
  if (i < vectors) {
    float4 v = __ldg(reinterpret_cast<const float4*>(x) + i);
    v.x = fmaxf(v.x, 0.0f);
    v.y = fmaxf(v.y, 0.0f);
    v.z = fmaxf(v.z, 0.0f);
    v.w = fmaxf(v.w, 0.0f);
    reinterpret_cast<float4*>(y)[i] = v;
  }
  int tail = vectors * 4 + i;
  if (i < count % 4) y[tail] = fmaxf(__ldg(x + tail), 0.0f);
}

torch::Tensor relu(torch::Tensor x) {
  auto y = torch::empty_like(x);
  int count = x.numel();
  int threads = 128, blocks = (count / 4 + threads) / threads;
  relu_vector_kernel<<<blocks, threads>>>(x.data_ptr<float>(), y.data_ptr<float>(), count);
  return y;
}
"""

cpp_source = "torch::Tensor relu(torch::Tensor x);"

extension = load_inline(
    name="vector_loads_tail",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["relu"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.relu(x.contiguous())
