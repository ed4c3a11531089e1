"""Adaptive average pooling to a size that does not divide the input. x: float32 (batch, channels, height, width)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 2
channels = 5
height = 17
width = 13
out_height = 5
out_width = 4


class Model(nn.Module):
    def __init__(self, out_height, out_width):
        super().__init__()
        self.size = (out_height, out_width)

    def forward(self, x):
        return F.adaptive_avg_pool2d(x, self.size)


def get_inputs():
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs():
    return [out_height, out_width]
