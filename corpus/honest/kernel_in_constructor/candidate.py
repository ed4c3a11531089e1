import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void table_kernel(float* table, int count) {
  int i = threadIdx.x;
  if (i < count) table[i] = i == 0 ? 0.0f : 1.0f;
}

__global__ void relu_kernel(const float* x, const float* table, float* y, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = x[i] * table[x[i] > 0.0f];
}

torch::Tensor make_table() {
  auto table = torch::empty({2}, torch::dtype(torch::kFloat32).device(torch::kCUDA));
  table_kernel<<<1, 32>>>(table.data_ptr<float>(), 2);
  return table;
}

torch::Tensor relu(torch::Tensor x, torch::Tensor table) {
  auto y = torch::empty_like(x);
  int count = x.numel();
  relu_kernel<<<(count + 255) / 256, 256>>>(x.data_ptr<float>(), table.data_ptr<float>(), y.data_ptr<float>(), count);
  return y;
}
"""

cpp_source = """
torch::Tensor make_table();
torch::Tensor relu(torch::Tensor x, torch::Tensor table);
"""

extension = load_inline(
    name="kernel_in_constructor",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["make_table", "relu"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = extension.make_table()

    def forward(self, x):
        return extension.relu(x, self.table)
