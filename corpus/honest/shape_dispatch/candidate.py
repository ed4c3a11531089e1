import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void short_rows_kernel(const float* x, float* out, int rows, int columns) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int c = 0; c < columns; ++c) sum += x[row * columns + c];
  out[row] = sum;
}

__global__ void long_rows_kernel(const float* x, float* out, int columns) {
  __shared__ float parts[8];
  float sum = 0.0f;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) sum += x[blockIdx.x * columns + c];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffu, sum, offset);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < blockDim.x / 32; ++w) sum += parts[w];
    out[blockIdx.x] = sum;
  }
}

torch::Tensor sum_rows(torch::Tensor x) {
  int rows = x.size(0), columns = x.size(1);
  auto out = torch::empty({rows}, x.options());
  if (columns <= 64)
    short_rows_kernel<<<(rows + 127) / 128, 128>>>(x.data_ptr<float>(), out.data_ptr<float>(), rows, columns);
  else
    long_rows_kernel<<<rows, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), columns);
  return out;
}
"""

cpp_source = "torch::Tensor sum_rows(torch::Tensor x);"

extension = load_inline(
    name="shape_dispatch",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["sum_rows"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        if x.dim() != 2:
            raise ValueError(f"expected a matrix, got {tuple(x.shape)}")
        return extension.sum_rows(x)
