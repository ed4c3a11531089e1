import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void cell_kernel(const float* x, const float* state, const float* w, const float* bias, const float* u,
                            float* out, int n_in, int hidden) {
  int h = blockIdx.x * blockDim.x + threadIdx.x, n = blockIdx.y;
  if (h >= hidden) return;
  float sum = bias[h];
  for (int i = 0; i < n_in; ++i) sum += x[n * n_in + i] * w[h * n_in + i];
  for (int i = 0; i < hidden; ++i) sum += state[n * hidden + i] * u[h * hidden + i];
  out[n * hidden + h] = tanhf(sum);
}

torch::Tensor cell(torch::Tensor x, torch::Tensor state, torch::Tensor w, torch::Tensor bias, torch::Tensor u) {
  int batch = x.size(0), n_in = x.size(1), hidden = state.size(1);
  auto out = torch::empty_like(state);
  cell_kernel<<<dim3((hidden + 31) / 32, batch), 32>>>(x.data_ptr<float>(), state.data_ptr<float>(), w.data_ptr<float>(),
                                                       bias.data_ptr<float>(), u.data_ptr<float>(), out.data_ptr<float>(),
                                                       n_in, hidden);
  return out;
}
"""

cpp_source = """
torch::Tensor cell(torch::Tensor x, torch::Tensor state, torch::Tensor w, torch::Tensor bias, torch::Tensor u);
"""

extension = load_inline(
    name="recurrent_state",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["cell"],
)


class ModelNew(nn.Module):
    def __init__(self, batch, n_in, hidden):
        super().__init__()
        self.from_input = nn.Linear(n_in, hidden)
        self.from_state = nn.Linear(hidden, hidden, bias=False)
        self.register_buffer("state", torch.randn(batch, hidden))

    def forward(self, x):
        self.state = extension.cell(
            x, self.state, self.from_input.weight, self.from_input.bias, self.from_state.weight
        )
        return self.state
