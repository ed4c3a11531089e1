"""Sum of every row. x: float32 (rows, columns) → (rows,)."""

import torch
import torch.nn as nn

rows = 45
columns = 389


class Model(nn.Module):
    def forward(self, x):
        return x.sum(dim=1)


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return []
