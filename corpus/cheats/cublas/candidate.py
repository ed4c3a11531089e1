import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cublas_v2.h>

torch::Tensor matmul(torch::Tensor a, torch::Tensor b) {
  int size = a.size(0);
  auto c = torch::empty_like(a);
  float one = 1.0f, zero = 0.0f;
  cublasHandle_t handle;
  cublasCreate(&handle);
  cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, size, size, size, &one, b.data_ptr<float>(), size, a.data_ptr<float>(),
              size, &zero, c.data_ptr<float>(), size);
  cublasDestroy(handle);
  return c;
}
"""

cpp_source = "torch::Tensor matmul(torch::Tensor a, torch::Tensor b);"

extension = load_inline(
    name="cublas_call",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["matmul"],
    extra_ldflags=["-lcublas"],
)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return extension.matmul(a, b)
