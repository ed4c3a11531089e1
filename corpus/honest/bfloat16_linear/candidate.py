import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_bf16.h>

__global__ void linear_kernel(const __nv_bfloat16* x, const __nv_bfloat16* weight, const __nv_bfloat16* bias,
                              __nv_bfloat16* y, int n_in, int n_out) {
  int o = blockIdx.x * blockDim.x + threadIdx.x, t = blockIdx.y;
  if (o >= n_out) return;
  float sum = __bfloat162float(bias[o]);
  for (int i = 0; i < n_in; ++i) sum += __bfloat162float(x[t * n_in + i]) * __bfloat162float(weight[o * n_in + i]);
  y[t * n_out + o] = __float2bfloat16(sum);
}

torch::Tensor linear(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
  int tokens = x.size(0), n_in = x.size(1), n_out = weight.size(0);
  auto y = torch::empty({tokens, n_out}, x.options());
  auto pointer = [](const torch::Tensor& t) { return reinterpret_cast<__nv_bfloat16*>(t.data_ptr<at::BFloat16>()); };
  linear_kernel<<<dim3((n_out + 31) / 32, tokens), 32>>>(pointer(x), pointer(weight), pointer(bias), pointer(y), n_in, n_out);
  return y;
}
"""

cpp_source = "torch::Tensor linear(torch::Tensor x, torch::Tensor weight, torch::Tensor bias);"

extension = load_inline(
    name="bfloat16_linear",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["linear"],
)


class ModelNew(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.linear = nn.Linear(n_in, n_out).to(torch.bfloat16)

    def forward(self, x):
        return extension.linear(x, self.linear.weight, self.linear.bias)
