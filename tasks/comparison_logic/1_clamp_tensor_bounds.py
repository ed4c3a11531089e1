"""Clamp with a lower and an upper bound per column. x: float32 (rows, columns), bounds: float32 (columns,)."""

import torch
import torch.nn as nn

rows = 60
columns = 71


class Model(nn.Module):
    def forward(self, x, low, high):
        return torch.minimum(torch.maximum(x, low), high)


def get_inputs():
    return [torch.randn(rows, columns), -torch.rand(columns), torch.rand(columns)]


def get_init_inputs():
    return []
