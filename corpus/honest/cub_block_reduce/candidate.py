import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cub/block/block_reduce.cuh>

template <int kThreads>
__global__ void norm_kernel(const float* x, float* out, int columns) {
  using Reduce = cub::BlockReduce<float, kThreads>;
  __shared__ typename Reduce::TempStorage storage;
  float sum = 0.0f;
  for (int c = threadIdx.x; c < columns; c += kThreads) {
    float v = x[blockIdx.x * columns + c];
    sum += v * v;
  }
  sum = Reduce(storage).Sum(sum);
  if (threadIdx.x == 0) out[blockIdx.x] = sqrtf(sum);
}

torch::Tensor norm(torch::Tensor x) {
  auto out = torch::empty({x.size(0), 1}, x.options());
  norm_kernel<128><<<x.size(0), 128>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(1));
  return out;
}
"""

cpp_source = "torch::Tensor norm(torch::Tensor x);"

extension = load_inline(
    name="cub_block_reduce",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["norm"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.norm(x)
