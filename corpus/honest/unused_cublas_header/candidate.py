import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cublas_v2.h>
#include <cuda_runtime.h>

#define TILE 16

__global__ void matmul_kernel(const float* a, const float* b, float* c, int rows, int inner, int columns) {
  __shared__ float tile_a[TILE][TILE];
  __shared__ float tile_b[TILE][TILE];
  int row = blockIdx.y * TILE + threadIdx.y;
  int column = blockIdx.x * TILE + threadIdx.x;
  float sum = 0.0f;
  for (int start = 0; start < inner; start += TILE) {
    int ka = start + threadIdx.x, kb = start + threadIdx.y;
    tile_a[threadIdx.y][threadIdx.x] = row < rows && ka < inner ? a[row * inner + ka] : 0.0f;
    tile_b[threadIdx.y][threadIdx.x] = kb < inner && column < columns ? b[kb * columns + column] : 0.0f;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TILE; ++k) sum += tile_a[threadIdx.y][k] * tile_b[k][threadIdx.x];
    __syncthreads();
  }
  if (row < rows && column < columns) c[row * columns + column] = sum;
}

torch::Tensor matmul(torch::Tensor a, torch::Tensor b) {
  TORCH_CHECK(a.is_cuda() && b.is_cuda(), "expected tensors on the GPU");
  TORCH_CHECK(a.size(1) == b.size(0), "inner sizes differ: ", a.size(1), " and ", b.size(0));
  a = a.contiguous();
  b = b.contiguous();
  int rows = a.size(0), inner = a.size(1), columns = b.size(1);
  auto c = torch::empty({rows, columns}, a.options());
  dim3 block(TILE, TILE);
  dim3 grid((columns + TILE - 1) / TILE, (rows + TILE - 1) / TILE);
  matmul_kernel<<<grid, block>>>(a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), rows, inner, columns);
  return c;
}
"""

cpp_source = "torch::Tensor matmul(torch::Tensor a, torch::Tensor b);"

extension = load_inline(
    name="unused_cublas_header",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["matmul"],
)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return extension.matmul(a, b)
