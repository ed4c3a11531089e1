import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void batchnorm_kernel(const float* x, const float* gain, const float* shift, float* y, int batch, int channels,
                                 int plane, float eps) {
  int channel = blockIdx.x, count = batch * plane, lane = threadIdx.x;
  float sum = 0.0f;
  for (int i = lane; i < count; i += 32) sum += x[(i / plane * channels + channel) * plane + i % plane];
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  float mean = sum / count, squares = 0.0f;
  for (int i = lane; i < count; i += 32) {
    float d = x[(i / plane * channels + channel) * plane + i % plane] - mean;
    squares += d * d;
  }
  for (int o = 16; o > 0; o /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, o);
  float scale = rsqrtf(squares / count + eps);
  for (int i = lane; i < count; i += 32) {
    int at = (i / plane * channels + channel) * plane + i % plane;
    y[at] = (x[at] - mean) * scale * gain[channel] + shift[channel];
  }
}

torch::Tensor batchnorm(torch::Tensor x, torch::Tensor gain, torch::Tensor shift, double eps) {
  auto y = torch::empty_like(x);
  int batch = x.size(0), channels = x.size(1), plane = x.size(2) * x.size(3);
  batchnorm_kernel<<<channels, 32>>>(x.data_ptr<float>(), gain.data_ptr<float>(), shift.data_ptr<float>(),
                                     y.data_ptr<float>(), batch, channels, plane, eps);
  return y;
}
"""

cpp_source = "torch::Tensor batchnorm(torch::Tensor x, torch::Tensor gain, torch::Tensor shift, double eps);"

extension = load_inline(
    name="batchnorm_own_state",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["batchnorm"],
)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(channels))
        self.shift = nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        return extension.batchnorm(x, self.gain, self.shift, 1e-5)
