import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

scale_source = r"""
#include <torch/extension.h>

__global__ void axpby_kernel(const float* x, const float* y, float* out, float alpha, float beta, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = alpha * x[i] + beta * y[i];
}
"""

host_source = r"""
torch::Tensor axpby(torch::Tensor x, torch::Tensor y, double alpha, double beta) {
  auto out = torch::empty_like(x);
  int count = x.numel();
  axpby_kernel<<<(count + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), out.data_ptr<float>(),
                                             (float)alpha, (float)beta, count);
  return out;
}

int64_t block_size() { return 256; }
"""

extension = load_inline(
    name="source_lists",
    cpp_sources=[
        "torch::Tensor axpby(torch::Tensor x, torch::Tensor y, double alpha, double beta);",
        "int64_t block_size();",
    ],
    cuda_sources=[scale_source, host_source],
    functions=["axpby", "block_size"],
    verbose=False,
)


class ModelNew(nn.Module):
    def forward(self, x, y, alpha, beta):
        assert extension.block_size() == 256
        return extension.axpby(x, y, alpha, beta)
