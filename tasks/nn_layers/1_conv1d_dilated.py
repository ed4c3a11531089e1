"""One-dimensional convolution with stride and dilation, without bias. x: float32 (batch, c_in, length)."""

import torch
import torch.nn as nn

batch = 3
c_in = 4
c_out = 6
length = 95
kernel = 5
stride = 2
dilation = 3


class Model(nn.Module):
    def __init__(self, c_in, c_out, kernel, stride, dilation):
        super().__init__()
        self.conv = nn.Conv1d(c_in, c_out, kernel, stride=stride, dilation=dilation, bias=False)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(batch, c_in, length)]


def get_init_inputs():
    return [c_in, c_out, kernel, stride, dilation]
