import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__constant__ float coefficients[8];

__global__ void polynomial_kernel(const float* x, float* y, int degree, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float value = coefficients[degree];
  for (int k = degree - 1; k >= 0; --k) value = value * x[i] + coefficients[k];
  y[i] = value;
}

torch::Tensor polynomial(torch::Tensor x, torch::Tensor c) {
  auto y = torch::empty_like(x);
  int count = x.numel();
  TORCH_CHECK(c.numel() <= 8, "too many coefficients");
  cudaMemcpyToSymbol(coefficients, c.data_ptr<float>(), c.numel() * sizeof(float), 0, cudaMemcpyDeviceToDevice);
  polynomial_kernel<<<(count + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), c.numel() - 1, count);
  return y;
}
"""

cpp_source = "torch::Tensor polynomial(torch::Tensor x, torch::Tensor c);"

extension = load_inline(
    name="constant_memory",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["polynomial"],
)


class ModelNew(nn.Module):
    def __init__(self, coefficients):
        super().__init__()
        self.register_buffer("coefficients", torch.tensor(coefficients))

    def forward(self, x):
        return extension.polynomial(x, self.coefficients)
