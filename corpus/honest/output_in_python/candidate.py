import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void max_kernel(const float* x, float* values, int64_t* indices, int rows, int columns) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  int best = 0;
  for (int c = 1; c < columns; ++c)
    if (x[row * columns + c] > x[row * columns + best]) best = c;
  values[row] = x[row * columns + best];
  indices[row] = best;
}

void max_into(torch::Tensor x, torch::Tensor values, torch::Tensor indices) {
  int rows = x.size(0);
  max_kernel<<<(rows + 31) / 32, 32>>>(x.data_ptr<float>(), values.data_ptr<float>(), indices.data_ptr<int64_t>(), rows, x.size(1));
}
"""

cpp_source = "void max_into(torch::Tensor x, torch::Tensor values, torch::Tensor indices);"

extension = load_inline(
    name="output_in_python",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["max_into"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        rows = x.shape[0]
        values = torch.empty(rows, device=x.device, dtype=x.dtype)
        indices = torch.empty(rows, device=x.device, dtype=torch.int64)
        extension.max_into(x, values, indices)
        return values, indices
