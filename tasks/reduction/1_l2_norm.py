"""Euclidean norm of every row, kept as a column. x: float32 (rows, columns) → (rows, 1)."""

import torch
import torch.nn as nn

rows = 52
columns = 145


class Model(nn.Module):
    def forward(self, x):
        return torch.sqrt((x * x).sum(dim=1, keepdim=True))


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return []
