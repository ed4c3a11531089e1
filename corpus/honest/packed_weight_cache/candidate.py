import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void transpose_kernel(const float* in, float* out, int rows, int columns) {
  int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
  if (c < columns) out[c * rows + r] = in[r * columns + c];
}

__global__ void linear_kernel(const float* x, const float* weight_t, const float* bias, float* y, int n_in, int n_out, int act) {
  int o = blockIdx.x * blockDim.x + threadIdx.x, n = blockIdx.y;
  if (o >= n_out) return;
  float sum = bias[o];
  for (int i = 0; i < n_in; ++i) sum += x[n * n_in + i] * weight_t[i * n_out + o];
  y[n * n_out + o] = act == 1 ? fmaxf(sum, 0.0f) : act == 2 ? tanhf(sum) : sum;
}

torch::Tensor pack(torch::Tensor weight) {
  int rows = weight.size(0), columns = weight.size(1);
  auto out = torch::empty({columns, rows}, weight.options());
  transpose_kernel<<<dim3((columns + 63) / 64, rows), 64>>>(weight.data_ptr<float>(), out.data_ptr<float>(), rows, columns);
  return out;
}

torch::Tensor linear(torch::Tensor x, torch::Tensor weight_t, torch::Tensor bias, int64_t act) {
  int batch = x.size(0), n_in = x.size(1), n_out = weight_t.size(1);
  auto y = torch::empty({batch, n_out}, x.options());
  linear_kernel<<<dim3((n_out + 63) / 64, batch), 64>>>(x.data_ptr<float>(), weight_t.data_ptr<float>(),
                                                        bias.data_ptr<float>(), y.data_ptr<float>(), n_in, n_out, (int)act);
  return y;
}
"""

cpp_source = """
torch::Tensor pack(torch::Tensor weight);
torch::Tensor linear(torch::Tensor x, torch::Tensor weight_t, torch::Tensor bias, int64_t act);
"""

extension = load_inline(
    name="packed_weight_cache",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["pack", "linear"],
)


class ModelNew(nn.Module):
    def __init__(self, n_in, hidden, n_out):
        super().__init__()
        self.first = nn.Linear(n_in, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.last = nn.Linear(hidden, n_out)
        self.packed = {}

    def weight(self, layer):
        key = (id(layer), layer.weight.data_ptr(), layer.weight._version)
        if key not in self.packed:
            self.packed[key] = extension.pack(layer.weight)
        return self.packed[key]

    def forward(self, x):
        x = extension.linear(x, self.weight(self.first), self.first.bias, 1)
        x = extension.linear(x, self.weight(self.second), self.second.bias, 2)
        return extension.linear(x, self.weight(self.last), self.last.bias, 0)
