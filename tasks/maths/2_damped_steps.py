"""Forty steps y ← y + tanh(y W) / 10: more work than the virtual GPU's budget, so the sizes are scaled. x: float32 (rows, width)."""

import torch
import torch.nn as nn

rows = 250
width = 250


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width) / width**0.5)

    def forward(self, x):
        for _ in range(40):
            x = x + torch.tanh(x @ self.weight) / 10
        return x


def get_inputs():
    return [torch.randn(rows, width)]


def get_init_inputs():
    return [width]
