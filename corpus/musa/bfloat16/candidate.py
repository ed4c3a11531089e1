import torch
import torch.nn as nn
import torch_musa
from torch_musa.utils.musa_extension import load_inline

musa_source = r"""
#include <torch/extension.h>
#include <musa_bf16.h>
#include <musa_runtime.h>

__global__ void elu_kernel(const __mt_bfloat16* x, __mt_bfloat16* y, float alpha, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float v = __bfloat162float(x[i]);
  y[i] = __float2bfloat16(v > 0.0f ? v : alpha * expm1f(v));
}

torch::Tensor elu(torch::Tensor x, double alpha) {
  auto y = torch::empty_like(x);
  int count = x.numel();
  elu_kernel<<<(count + 255) / 256, 256>>>(reinterpret_cast<const __mt_bfloat16*>(x.data_ptr<at::BFloat16>()),
                                           reinterpret_cast<__mt_bfloat16*>(y.data_ptr<at::BFloat16>()),
                                           static_cast<float>(alpha), count);
  return y;
}
"""

extension = load_inline(
    name="bfloat16_elu",
    cpp_sources="torch::Tensor elu(torch::Tensor x, double alpha);",
    musa_sources=musa_source,
    functions=["elu"],
)


class ModelNew(nn.Module):
    def __init__(self, alpha):
        super().__init__()
        self.alpha = alpha

    def forward(self, x):
        return extension.elu(x, self.alpha)
