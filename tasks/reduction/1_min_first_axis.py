"""Smallest element over the first axis. x: float32 (rows, columns) → (columns,)."""

import torch
import torch.nn as nn

rows = 141
columns = 62


class Model(nn.Module):
    def forward(self, x):
        return torch.amin(x, dim=0)


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return []
