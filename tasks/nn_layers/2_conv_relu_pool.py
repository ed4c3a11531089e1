"""Convolution, ReLU, max pooling by two. x: float32 (batch, c_in, height, width)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 2
c_in = 3
c_out = 6
height = 14
width = 17


class Model(nn.Module):
    def __init__(self, c_in, c_out):
        super().__init__()
        self.conv = nn.Conv2d(c_in, c_out, 3)

    def forward(self, x):
        return F.max_pool2d(torch.relu(self.conv(x)), 2)


def get_inputs():
    return [torch.randn(batch, c_in, height, width)]


def get_init_inputs():
    return [c_in, c_out]
