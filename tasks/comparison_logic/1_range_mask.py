"""Which elements lie in [low, high)? x: float32 (rows, columns) → bool."""

import torch
import torch.nn as nn

rows = 44
columns = 91
low = -0.5
high = 0.8


class Model(nn.Module):
    def __init__(self, low, high):
        super().__init__()
        self.low = low
        self.high = high

    def forward(self, x):
        return (x >= self.low) & (x < self.high)


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return [low, high]
