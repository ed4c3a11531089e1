import torch
import torch.nn as nn
import torch_musa
from torch_musa.utils.musa_extension import load_inline

musa_source = r"""
#include <torch/extension.h>
#include "torch_musa/csrc/aten/musa/MUSAContext.h"
#include "torch_musa/csrc/core/MUSAException.h"
#include "torch_musa/csrc/core/MUSAGuard.h"
#include "torch_musa/csrc/core/MUSAStream.h"

__global__ void leaky_relu_kernel(const float* x, float* y, float slope, int64_t count) {
  int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) y[i] = x[i] > 0.0f ? x[i] : slope * x[i];
}

torch::Tensor leaky_relu(torch::Tensor x, double slope) {
  TORCH_CHECK(x.is_privateuseone(), "x must be a MUSA tensor");
  TORCH_CHECK(x.device().type() == at::musa::kMUSA, "x must be a MUSA tensor");
  TORCH_CHECK(!x.is_cuda(), "there is no CUDA beside torch_musa");
  const c10::musa::MUSAGuard guard(x.device());
  auto y = torch::empty_like(x);
  const int64_t count = x.numel();
  musaStream_t stream = at::musa::getCurrentMUSAStream();
  leaky_relu_kernel<<<(count + 255) / 256, 256, 0, stream>>>(x.data_ptr<float>(), y.data_ptr<float>(),
                                                            static_cast<float>(slope), count);
  C10_MUSA_KERNEL_LAUNCH_CHECK();
  TORCH_MUSA_CHECK(musaStreamSynchronize(stream));
  return y;
}
"""

extension = load_inline(
    name="guard_and_stream",
    cpp_sources="torch::Tensor leaky_relu(torch::Tensor x, double slope);",
    musa_sources=[musa_source],
    functions={"leaky_relu": "leaky ReLU"},
)


class ModelNew(nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def forward(self, x):
        assert x.is_musa and not x.is_cuda and x.device.type == "musa" and str(x.device) == "musa:0"
        return extension.leaky_relu(x, self.slope)
