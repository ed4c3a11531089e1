import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cpp_source = "torch::Tensor linear_relu(torch::Tensor x, torch::Tensor weight, torch::Tensor bias);"

kernel_source = """
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/cuda/CUDAException.h>

constexpr int kTile = 16;

// out = relu(x · weightᵀ + bias), a tile of 16 × 16 results a block; both factors pass through shared memory.
__global__ void linear_relu_kernel(const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
                                   float* __restrict__ out, int rows, int inner, int columns) {
  __shared__ float x_tile[kTile][kTile];
  __shared__ float w_tile[kTile][kTile + 1];
  const int row = blockIdx.y * kTile + threadIdx.y, column = blockIdx.x * kTile + threadIdx.x;
  const int w_row = blockIdx.x * kTile + threadIdx.y;
  float sum = 0.0f;
  for (int begin = 0; begin < inner; begin += kTile) {
    const int k = begin + threadIdx.x;
    x_tile[threadIdx.y][threadIdx.x] = row < rows && k < inner ? x[(long long)row * inner + k] : 0.0f;
    w_tile[threadIdx.y][threadIdx.x] = w_row < columns && k < inner ? weight[(long long)w_row * inner + k] : 0.0f;
    __syncthreads();
    for (int i = 0; i < kTile; ++i) sum += x_tile[threadIdx.y][i] * w_tile[threadIdx.x][i];
    __syncthreads();
  }
  if (row < rows && column < columns) out[(long long)row * columns + column] = fmaxf(sum + bias[column], 0.0f);
}

torch::Tensor linear_relu(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
  TORCH_CHECK(x.dim() == 2 && x.scalar_type() == torch::kFloat32, "linear_relu takes a float32 matrix");
  x = x.contiguous();
  weight = weight.contiguous();
  bias = bias.contiguous();
  const int rows = (int)x.size(0), inner = (int)x.size(1), columns = (int)weight.size(0);
  auto out = torch::empty({rows, columns}, x.options());
  if (out.numel() == 0) return out;
  const dim3 threads(kTile, kTile), blocks((columns + kTile - 1) / kTile, (rows + kTile - 1) / kTile);
  linear_relu_kernel<<<blocks, threads, 0, c10::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
                                                                              out.data_ptr<float>(), rows, inner, columns);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""

extension = load_inline(name="exemplar_linear_relu", cpp_sources=cpp_source, cuda_sources=kernel_source, functions=["linear_relu"], verbose=False)


class ModelNew(nn.Module):
    def __init__(self, inner, columns):
        super().__init__()
        self.linear = nn.Linear(inner, columns)

    def forward(self, x):
        return extension.linear_relu(x, self.linear.weight, self.linear.bias)
