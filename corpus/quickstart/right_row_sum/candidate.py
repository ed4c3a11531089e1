import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void row_sum_kernel(const float* x, float* out, int rows, int columns) {
  int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  int lane = threadIdx.x % 32;
  if (warp >= rows) return;
  float sum = 0.0f;
  for (int c = lane; c < columns; c += 32) sum += x[warp * columns + c];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffu, sum, offset);
  if (lane == 0) out[warp] = sum;
}

torch::Tensor row_sum(torch::Tensor x) {
  TORCH_CHECK(x.dim() == 2, "expected a matrix");
  auto input = x.contiguous();
  int rows = input.size(0), columns = input.size(1);
  auto out = torch::empty({rows}, input.options());
  const int warps = 4;
  row_sum_kernel<<<(rows + warps - 1) / warps, warps * 32>>>(input.data_ptr<float>(), out.data_ptr<float>(), rows, columns);
  return out;
}
"""

cpp_source = "torch::Tensor row_sum(torch::Tensor x);"

extension = load_inline(
    name="right_row_sum",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["row_sum"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.row_sum(x)
