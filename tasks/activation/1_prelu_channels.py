"""PReLU with one learned slope per channel (a parameter). x: float32 (batch, channels, height, width)."""

import torch
import torch.nn as nn

batch = 2
channels = 6
height = 17
width = 23


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.slope = nn.Parameter(torch.linspace(0.05, 0.6, channels))

    def forward(self, x):
        return torch.where(x >= 0, x, x * self.slope.view(1, -1, 1, 1))


def get_inputs():
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs():
    return [channels]
