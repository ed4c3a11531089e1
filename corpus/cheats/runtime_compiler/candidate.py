import torch
import torch.nn as nn

source = r"""
extern "C" __global__ void relu_kernel(const float* x, float* y, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = x[i] > 0.0f ? x[i] : 0.0f;
}
"""

relu_kernel = torch.cuda._compile_kernel(source, "relu_kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        relu_kernel(grid=((x.numel() + 255) // 256, 1, 1), block=(256, 1, 1), args=[x, y, x.numel()])
        return y
