import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void pad_kernel(const float* x, float* padded, int length, int padding, int padded_length, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  int position = i % padded_length - padding, plane = i / padded_length;
  padded[i] = position >= 0 && position < length ? x[plane * length + position] : 0.0f;
}

__global__ void pool_kernel(const float* padded, float* y, int padded_length, int out_length, int kernel, int stride, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float* window = padded + i / out_length * padded_length + i % out_length * stride;
  float sum = 0.0f;
  for (int k = 0; k < kernel; ++k) sum += window[k];
  y[i] = sum / kernel;
}

torch::Tensor avgpool(torch::Tensor x, int64_t kernel, int64_t stride, int64_t padding) {
  int planes = x.size(0) * x.size(1), length = x.size(2), padded_length = length + 2 * padding;
  int out_length = (padded_length - kernel) / stride + 1;
  auto y = torch::empty({x.size(0), x.size(1), out_length}, x.options());
  float* padded = nullptr;
  TORCH_CHECK(cudaMalloc(&padded, sizeof(float) * planes * padded_length) == cudaSuccess, "out of memory");
  int count = planes * padded_length, outputs = planes * out_length;
  pad_kernel<<<(count + 127) / 128, 128>>>(x.data_ptr<float>(), padded, length, padding, padded_length, count);
  pool_kernel<<<(outputs + 127) / 128, 128>>>(padded, y.data_ptr<float>(), padded_length, out_length, kernel, stride, outputs);
  cudaDeviceSynchronize();
  cudaFree(padded);
  return y;
}
"""

cpp_source = "torch::Tensor avgpool(torch::Tensor x, int64_t kernel, int64_t stride, int64_t padding);"

extension = load_inline(
    name="scratch_malloc",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["avgpool"],
)


class ModelNew(nn.Module):
    def __init__(self, kernel, stride, padding):
        super().__init__()
        self.arguments = (kernel, stride, padding)

    def forward(self, x):
        return extension.avgpool(x, *self.arguments)
