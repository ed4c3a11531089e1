"""Transposed convolution, stride two, with output padding. x: float32 (batch, c_in, height, width)."""

import torch
import torch.nn as nn

batch = 2
c_in = 4
c_out = 3
height = 9
width = 7
kernel = 3


class Model(nn.Module):
    def __init__(self, c_in, c_out, kernel):
        super().__init__()
        self.conv = nn.ConvTranspose2d(c_in, c_out, kernel, stride=2, padding=1, output_padding=1)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(batch, c_in, height, width)]


def get_init_inputs():
    return [c_in, c_out, kernel]
