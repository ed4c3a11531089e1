import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cassert>

__global__ void gather_kernel(const float* table, const int64_t* index, float* out, int count, int features) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count * features) return;
  int64_t entry = index[i / features];
  assert(entry < 8 && "index out of range");
  out[i] = table[entry * features + i % features];
}

torch::Tensor gather(torch::Tensor table, torch::Tensor index) {
  int count = index.size(0), features = table.size(1);
  auto out = torch::empty({count, features}, table.options());
  gather_kernel<<<(count * features + 255) / 256, 256>>>(table.data_ptr<float>(), index.data_ptr<int64_t>(),
                                                         out.data_ptr<float>(), count, features);
  return out;
}
"""

cpp_source = "torch::Tensor gather(torch::Tensor table, torch::Tensor index);"

extension = load_inline(
    name="device_assert",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["gather"],
)


class ModelNew(nn.Module):
    def forward(self, table, index):
        return extension.gather(table, index)
