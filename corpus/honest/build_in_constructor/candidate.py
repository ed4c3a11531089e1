import torch
import torch.nn as nn
import torch.utils.cpp_extension

CUDA = r"""
__global__ void add_kernel(const float* x, const float* row, const float* column, float* y, int rows, int columns) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < rows * columns) y[i] = x[i] + row[i % columns] + 2.0f * column[i / columns];
}

torch::Tensor add(torch::Tensor x, torch::Tensor row, torch::Tensor column) {
  auto y = torch::empty_like(x);
  int rows = x.size(0), columns = x.size(1);
  add_kernel<<<(rows * columns + 255) / 256, 256>>>(x.data_ptr<float>(), row.data_ptr<float>(), column.data_ptr<float>(),
                                                    y.data_ptr<float>(), rows, columns);
  return y;
}
"""


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.extension = torch.utils.cpp_extension.load_inline(
            "build_in_constructor",
            "torch::Tensor add(torch::Tensor x, torch::Tensor row, torch::Tensor column);",
            CUDA,
            functions=["add"],
        )

    def forward(self, x, row, column):
        return self.extension.add(x, row.contiguous(), column.contiguous())
