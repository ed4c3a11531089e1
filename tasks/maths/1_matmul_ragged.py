"""Matrix product whose three sizes fit no tile. a: float32 (rows, inner), b: float32 (inner, columns)."""

import torch
import torch.nn as nn

rows = 45
inner = 83
columns = 70


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.randn(rows, inner), torch.randn(inner, columns)]


def get_init_inputs():
    return []
