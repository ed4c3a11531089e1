"""alpha * x + beta * y with Python scalars as inputs of forward. x, y: float32 (rows, columns)."""

import torch
import torch.nn as nn

rows = 37
columns = 111
alpha = 1.75
beta = -3


class Model(nn.Module):
    def forward(self, x, y, alpha, beta):
        return alpha * x + beta * y


def get_inputs():
    return [torch.randn(rows, columns), torch.randn(rows, columns), alpha, beta]


def get_init_inputs():
    return []
