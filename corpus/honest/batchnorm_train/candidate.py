import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void batchnorm_kernel(const float* x, const float* weight, const float* bias, float* running_mean,
                                 float* running_var, float* y, int batch, int channels, int plane, float momentum, float eps) {
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
    y[at] = (x[at] - mean) * scale * weight[channel] + bias[channel];
  }
  if (lane == 0) {
    running_mean[channel] = (1.0f - momentum) * running_mean[channel] + momentum * mean;
    running_var[channel] = (1.0f - momentum) * running_var[channel] + momentum * squares / (count - 1);
  }
}

torch::Tensor batchnorm(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, torch::Tensor running_mean,
                        torch::Tensor running_var, double momentum, double eps) {
  auto y = torch::empty_like(x);
  int batch = x.size(0), channels = x.size(1), plane = x.size(2) * x.size(3);
  batchnorm_kernel<<<channels, 32>>>(x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
                                     running_mean.data_ptr<float>(), running_var.data_ptr<float>(), y.data_ptr<float>(),
                                     batch, channels, plane, momentum, eps);
  return y;
}
"""

cpp_source = """
torch::Tensor batchnorm(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, torch::Tensor running_mean,
                        torch::Tensor running_var, double momentum, double eps);
"""

extension = load_inline(
    name="batchnorm_train",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["batchnorm"],
)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        n = self.norm
        return extension.batchnorm(x, n.weight, n.bias, n.running_mean, n.running_var, n.momentum, n.eps)
