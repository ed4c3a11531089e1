import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void conv2d_kernel(const float* x, const float* weight, const float* bias, float* y, int batch, int c_in,
                              int c_out, int height, int width, int kernel, int padding) {
  int out_h = height + 2 * padding - kernel + 1, out_w = width + 2 * padding - kernel + 1;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= batch * c_out * out_h * out_w) return;
  int ox = i % out_w, oy = i / out_w % out_h, co = i / (out_w * out_h) % c_out, n = i / (out_w * out_h * c_out);
  float sum = bias[co];
  for (int ci = 0; ci < c_in; ++ci)
    for (int ky = 0; ky < kernel; ++ky)
      for (int kx = 0; kx < kernel; ++kx) {
        int iy = oy + ky - padding, ix = ox + kx - padding;
        if (iy >= 0 && iy < height && ix >= 0 && ix < width)
          sum += x[((n * c_in + ci) * height + iy) * width + ix] * weight[((co * c_in + ci) * kernel + ky) * kernel + kx];
      }
  y[i] = sum;
}

torch::Tensor conv2d(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, int64_t padding) {
  int batch = x.size(0), c_in = x.size(1), height = x.size(2), width = x.size(3);
  int c_out = weight.size(0), kernel = weight.size(2), pad = padding;
  auto y = torch::empty({batch, c_out, height + 2 * pad - kernel + 1, width + 2 * pad - kernel + 1}, x.options());
  int count = y.numel();
  conv2d_kernel<<<(count + 127) / 128, 128>>>(x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
                                              y.data_ptr<float>(), batch, c_in, c_out, height, width, kernel, pad);
  return y;
}
"""

cpp_source = """
torch::Tensor conv2d(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, int64_t padding);
"""

extension = load_inline(
    name="right_conv2d",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["conv2d"],
)


class ModelNew(nn.Module):
    def __init__(self, c_in, c_out, kernel):
        super().__init__()
        self.conv = nn.Conv2d(c_in, c_out, kernel, padding=1)

    def forward(self, x):
        return extension.conv2d(x, self.conv.weight, self.conv.bias, 1)
