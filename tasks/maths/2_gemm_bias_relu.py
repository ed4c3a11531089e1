"""relu(a b + bias), bias a parameter. a: float32 (rows, inner), b: float32 (inner, columns)."""

import torch
import torch.nn as nn

rows = 39
inner = 58
columns = 47


class Model(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(columns))

    def forward(self, a, b):
        return torch.relu(a @ b + self.bias)


def get_inputs():
    return [torch.randn(rows, inner), torch.randn(inner, columns)]


def get_init_inputs():
    return [columns]
