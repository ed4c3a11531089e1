import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void statistics_kernel(const float* x, float* mean, float* inverse, int per_group, float eps) {
  __shared__ float sums[128], squares[128];
  const float* group = x + (int64_t)blockIdx.x * per_group;
  float s = 0.0f;
  for (int i = threadIdx.x; i < per_group; i += blockDim.x) s += group[i];
  sums[threadIdx.x] = s;
  __syncthreads();
  for (int w = 64; w > 0; w >>= 1) {
    if (threadIdx.x < w) sums[threadIdx.x] += sums[threadIdx.x + w];
    __syncthreads();
  }
  float m = sums[0] / per_group, q = 0.0f;
  for (int i = threadIdx.x; i < per_group; i += blockDim.x) q += (group[i] - m) * (group[i] - m);
  squares[threadIdx.x] = q;
  __syncthreads();
  for (int w = 64; w > 0; w >>= 1) {
    if (threadIdx.x < w) squares[threadIdx.x] += squares[threadIdx.x + w];
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    mean[blockIdx.x] = m;
    inverse[blockIdx.x] = rsqrtf(squares[0] / per_group + eps);
  }
}

__global__ void normalise_kernel(const float* x, const float* mean, const float* inverse, const float* weight,
                                 const float* bias, float* y, int count, int channels, int plane, int per_group) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  int channel = i / plane % channels, group = i / per_group;
  y[i] = (x[i] - mean[group]) * inverse[group] * weight[channel] + bias[channel];
}

torch::Tensor groupnorm(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, int64_t groups, double eps) {
  int batch = x.size(0), channels = x.size(1), count = x.numel();
  int plane = count / batch / channels, per_group = count / (batch * groups);
  auto mean = torch::empty({batch * groups}, x.options());
  auto inverse = torch::empty_like(mean);
  auto y = torch::empty_like(x);
  statistics_kernel<<<batch * groups, 128>>>(x.data_ptr<float>(), mean.data_ptr<float>(), inverse.data_ptr<float>(), per_group, eps);
  normalise_kernel<<<(count + 255) / 256, 256>>>(x.data_ptr<float>(), mean.data_ptr<float>(), inverse.data_ptr<float>(),
                                                 weight.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(),
                                                 count, channels, plane, per_group);
  return y;
}
"""

cpp_source = """
torch::Tensor groupnorm(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, int64_t groups, double eps);
"""

extension = load_inline(
    name="several_kernels",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["groupnorm"],
)


class ModelNew(nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x):
        norm = self.norm
        return extension.groupnorm(x, norm.weight, norm.bias, norm.num_groups, norm.eps)
