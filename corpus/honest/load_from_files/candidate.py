import os
import tempfile

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load

CUDA = r"""
#include <torch/extension.h>

__global__ void min_kernel(const float* x, float* out, int rows, int columns) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= columns) return;
  float smallest = x[c];
  for (int r = 1; r < rows; ++r) smallest = fminf(smallest, x[r * columns + c]);
  out[c] = smallest;
}

torch::Tensor min_cuda(torch::Tensor x) {
  auto out = torch::empty({x.size(1)}, x.options());
  min_kernel<<<(x.size(1) + 63) / 64, 64>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(0), x.size(1));
  return out;
}
"""

CPP = r"""
#include <torch/extension.h>

torch::Tensor min_cuda(torch::Tensor x);

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("min_rows", &min_cuda, "smallest element of every column"); }
"""

folder = tempfile.mkdtemp()
paths = [os.path.join(folder, "binding.cpp"), os.path.join(folder, "kernel.cu")]
for path, text in zip(paths, (CPP, CUDA)):
    with open(path, "w") as file:
        file.write(text)

extension = load(name="load_from_files", sources=paths, extra_cuda_cflags=["-O2"], verbose=False)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.min_rows(x)
