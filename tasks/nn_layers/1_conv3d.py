"""Three-dimensional convolution. x: float32 (batch, c_in, depth, height, width)."""

import torch
import torch.nn as nn

batch = 1
c_in = 2
c_out = 4
depth = 6
height = 9
width = 10
kernel = 3


class Model(nn.Module):
    def __init__(self, c_in, c_out, kernel):
        super().__init__()
        self.conv = nn.Conv3d(c_in, c_out, kernel)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(batch, c_in, depth, height, width)]


def get_init_inputs():
    return [c_in, c_out, kernel]
