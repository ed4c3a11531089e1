import torch
import torch.nn as nn
import torch_musa
from torch_musa.utils.musa_extension import load_inline

musa_source = r"""
#include <torch/extension.h>
#include <musa_runtime.h>

constexpr int kTile = 16;

__global__ void gemm_bias_relu(const float* x, const float* w, const float* bias, float* y, int m, int n, int k) {
  __shared__ float a[kTile][kTile + 1], b[kTile][kTile + 1];
  const int row = blockIdx.y * kTile + threadIdx.y, column = blockIdx.x * kTile + threadIdx.x;
  float sum = 0.0f;
  for (int t = 0; t < k; t += kTile) {
    a[threadIdx.y][threadIdx.x] = row < m && t + threadIdx.x < k ? x[row * k + t + threadIdx.x] : 0.0f;
    b[threadIdx.y][threadIdx.x] = column < n && t + threadIdx.y < k ? w[(t + threadIdx.y) * n + column] : 0.0f;
    __syncthreads();
    for (int i = 0; i < kTile; ++i) sum += a[threadIdx.y][i] * b[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && column < n) y[row * n + column] = fmaxf(sum + bias[column], 0.0f);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor bias) {
  const int m = x.size(0), k = x.size(1), n = w.size(1);
  auto y = torch::empty({m, n}, x.options());
  const dim3 block(kTile, kTile), grid((n + kTile - 1) / kTile, (m + kTile - 1) / kTile);
  gemm_bias_relu<<<grid, block>>>(x.data_ptr<float>(), w.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), m, n, k);
  return y;
}
"""

extension = load_inline(
    name="module_on_device",
    cpp_sources="torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor bias);",
    musa_sources=musa_source,
    functions=["forward"],
)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(columns))
        probe = torch.ones(4, device="musa:0")
        assert probe.musa().is_musa and probe.to(torch.device("musa")).sum().item() == 4
        with torch.musa.device(0), torch.musa.stream(torch.musa.Stream()):
            event = torch.musa.Event(enable_timing=True)
            event.record()
        torch.musa.synchronize()

    def forward(self, a, b):
        return extension.forward(a, b, self.bias)
