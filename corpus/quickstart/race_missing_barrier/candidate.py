import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void transpose_kernel(const float* in, float* out, int rows, int columns) {
  __shared__ float tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  if (x < columns && y < rows) tile[threadIdx.y][threadIdx.x] = in[y * columns + x];
  x = blockIdx.y * 32 + threadIdx.x;
  y = blockIdx.x * 32 + threadIdx.y;
  if (x < rows && y < columns) out[y * rows + x] = tile[threadIdx.x][threadIdx.y];
}

torch::Tensor transpose(torch::Tensor in) {
  int rows = in.size(0), columns = in.size(1);
  auto out = torch::empty({columns, rows}, in.options());
  transpose_kernel<<<dim3((columns + 31) / 32, (rows + 31) / 32), dim3(32, 32)>>>(in.data_ptr<float>(),
                                                                                  out.data_ptr<float>(), rows, columns);
  return out;
}
"""

cpp_source = "torch::Tensor transpose(torch::Tensor in);"

extension = load_inline(
    name="race_missing_barrier",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["transpose"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.transpose(x)
