import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

__global__ void normalize_kernel(const float* x, float* y, int rows, int columns) {
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<32> tile = cg::tiled_partition<32>(block);
  int row = blockIdx.x * (blockDim.x / 32) + tile.meta_group_rank();
  if (row >= rows) return;
  float sum = 0.0f;
  for (int c = tile.thread_rank(); c < columns; c += tile.size()) sum += fabsf(x[row * columns + c]);
  sum = cg::reduce(tile, sum, cg::plus<float>());
  float divisor = fmaxf(sum, 1e-12f);
  for (int c = tile.thread_rank(); c < columns; c += tile.size()) y[row * columns + c] = x[row * columns + c] / divisor;
}

torch::Tensor row_normalize(torch::Tensor x) {
  auto y = torch::empty_like(x);
  int rows = x.size(0);
  normalize_kernel<<<(rows + 3) / 4, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), rows, x.size(1));
  return y;
}
"""

cpp_source = "torch::Tensor row_normalize(torch::Tensor x);"

extension = load_inline(
    name="cooperative_groups",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["row_normalize"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.row_normalize(x)
