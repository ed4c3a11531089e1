import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void softmax(const float* gate, const float* value, float* y, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = gate[i] / (1.0f + __expf(-gate[i])) * value[i];
}

torch::Tensor cublas_gemm(torch::Tensor gate, torch::Tensor value) {
  auto y = torch::empty_like(gate);
  int count = gate.numel();
  softmax<<<(count + 127) / 128, 128>>>(gate.data_ptr<float>(), value.data_ptr<float>(), y.data_ptr<float>(), count);
  return y;
}
"""

cpp_source = "torch::Tensor cublas_gemm(torch::Tensor gate, torch::Tensor value);"

extension = load_inline(
    name="shared_names",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["cublas_gemm"],
)


class ModelNew(nn.Module):
    def matmul(self, gate, value):
        return extension.cublas_gemm(gate, value)

    def forward(self, gate, value):
        return self.matmul(gate, value)
