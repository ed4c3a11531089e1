"""Depthwise convolution, one kernel per channel. x: float32 (batch, channels, height, width)."""

import torch
import torch.nn as nn

batch = 2
channels = 7
height = 16
width = 21
kernel = 5


class Model(nn.Module):
    def __init__(self, channels, kernel):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel, padding=kernel // 2, groups=channels)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs():
    return [channels, kernel]
