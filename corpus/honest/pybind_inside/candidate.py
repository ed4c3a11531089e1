import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cpp_source = r"""
#include <torch/extension.h>

torch::Tensor transpose_cuda(torch::Tensor x);

torch::Tensor transpose(torch::Tensor x) {
  TORCH_CHECK(x.dim() == 2, "expected a matrix, got ", x.dim(), " dimensions");
  return transpose_cuda(x.contiguous());
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "transpose";
  m.def("transpose", &transpose, "Transposed copy", py::arg("x"));
}
"""

cuda_source = r"""
#include <torch/extension.h>

__global__ void transpose_kernel(const float* in, float* out, int rows, int columns) {
  int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
  if (r < rows && c < columns) out[c * rows + r] = in[r * columns + c];
}

torch::Tensor transpose_cuda(torch::Tensor x) {
  int rows = x.size(0), columns = x.size(1);
  auto out = torch::empty({columns, rows}, x.options());
  dim3 block(32, 8);
  transpose_kernel<<<dim3((columns + 31) / 32, (rows + 7) / 8), block>>>(x.data_ptr<float>(), out.data_ptr<float>(), rows, columns);
  return out;
}
"""

extension = load_inline(name="pybind_inside", cpp_sources=cpp_source, cuda_sources=cuda_source)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.transpose(x=x)
