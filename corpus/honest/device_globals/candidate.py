import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__device__ int shift_table[2];

__device__ __noinline__ int mix(int a, int b) { return ((a << shift_table[0]) ^ (b >> shift_table[1])) | (a & b); }

__global__ void fill_kernel(int left, int right) {
  shift_table[0] = left;
  shift_table[1] = right;
}

__global__ void mix_kernel(const int* a, const int* b, int* y, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = mix(a[i], b[i]);
}

torch::Tensor bitwise_mix(torch::Tensor a, torch::Tensor b) {
  auto y = torch::empty_like(a);
  int count = a.numel();
  fill_kernel<<<1, 1>>>(3, 2);
  mix_kernel<<<(count + 255) / 256, 256>>>(a.data_ptr<int>(), b.data_ptr<int>(), y.data_ptr<int>(), count);
  return y;
}
"""

cpp_source = "torch::Tensor bitwise_mix(torch::Tensor a, torch::Tensor b);"

extension = load_inline(
    name="device_globals",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["bitwise_mix"],
)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return extension.bitwise_mix(a, b)
