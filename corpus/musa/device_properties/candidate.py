import torch
import torch.nn as nn
from torch_musa.utils.musa_extension import load_inline

musa_source = r"""
#include <torch/extension.h>
#include <musa_runtime.h>

__global__ void relu_kernel(const float* x, float* y, int count) {
  extern __shared__ float stage[];
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    stage[threadIdx.x] = x[i];
    y[i] = fmaxf(stage[threadIdx.x], 0.0f);
  }
}

torch::Tensor relu(torch::Tensor x) {
  musaDeviceProp properties;
  TORCH_CHECK(musaGetDeviceProperties(&properties, 0) == musaSuccess);
  TORCH_CHECK(properties.multiProcessorCount == 56 && properties.major == 3 && properties.minor == 1);
  TORCH_CHECK(properties.warpSize == 32 && properties.sharedMemPerBlock == 192 * 1024);
  TORCH_CHECK(properties.maxThreadsPerMultiProcessor == 3072 && properties.l2CacheSize == 62914560);
  auto y = torch::empty_like(x);
  // More than 48 KiB without asking for it: on an S5000 a block has all of it.
  relu_kernel<<<properties.multiProcessorCount, 256, 96 * 1024>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  TORCH_CHECK(musaGetLastError() == musaSuccess);
  return y;
}
"""

extension = load_inline(
    name="device_properties",
    cpp_sources="torch::Tensor relu(torch::Tensor x);",
    musa_sources=musa_source,
    functions=["relu"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        found = torch.musa.get_device_properties(0)
        assert "S5000" in torch.musa.get_device_name() and torch.musa.get_device_capability() == (3, 1)
        assert found.multi_processor_count == 56 and found.L2_cache_size == 62914560
        assert torch.musa.is_available() and torch.musa.device_count() == 1 and not torch.cuda.is_available()
        assert torch.backends.mudnn.allow_tf32 is False

    def forward(self, x):
        return extension.relu(x)
