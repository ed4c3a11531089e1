"""Leaky ReLU with a slope given to the constructor. x: float32 (batch, channels, width)."""

import torch
import torch.nn as nn

batch = 5
channels = 7
width = 333
slope = 0.2


class Model(nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def forward(self, x):
        return torch.where(x > 0, x, self.slope * x)


def get_inputs():
    return [torch.randn(batch, channels, width)]


def get_init_inputs():
    return [slope]
