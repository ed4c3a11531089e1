import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void where_kernel(const float* x, const float* y, float* out, float threshold, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = x[i] > threshold ? x[i] : 0.5f * y[i];
}

torch::Tensor where_threshold(const torch::Tensor& x, const torch::Tensor& y, float threshold) {
  torch::Tensor out = torch::empty(x.sizes(), x.options());
  int count = x.numel();
  where_kernel<<<(count + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), out.data_ptr<float>(), threshold, count);
  return out;
}
"""

cpp_source = """
torch::Tensor where_threshold(const torch::Tensor& x, const torch::Tensor& y, float threshold);
"""

extension = load_inline(
    name="functions_dict",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions={"where_threshold": "x above the threshold, otherwise y / 2"},
)


class ModelNew(nn.Module):
    def __init__(self, threshold):
        super().__init__()
        self.threshold = threshold

    def forward(self, x, y):
        return extension.where_threshold(x, y, self.threshold)
