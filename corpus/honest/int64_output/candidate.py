import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void count_kernel(const int* values, const int* keys, long* out, int columns) {
  int row = blockIdx.x, count = 0;
  for (int c = threadIdx.x; c < columns; c += 32) count += values[row * columns + c] == keys[row];
  count = __reduce_add_sync(0xffffffffu, count);
  if (threadIdx.x == 0) out[row] = count;
}

torch::Tensor count_equal(torch::Tensor values, torch::Tensor keys) {
  auto out = torch::empty({values.size(0)}, torch::TensorOptions().dtype(torch::kLong).device(values.device()));
  count_kernel<<<values.size(0), 32>>>(values.data_ptr<int>(), keys.data_ptr<int>(), out.data_ptr<int64_t>(), values.size(1));
  return out;
}
"""

cpp_source = "torch::Tensor count_equal(torch::Tensor values, torch::Tensor keys);"

extension = load_inline(
    name="int64_output",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["count_equal"],
)


class ModelNew(nn.Module):
    def forward(self, values, keys):
        return extension.count_equal(values, keys)
