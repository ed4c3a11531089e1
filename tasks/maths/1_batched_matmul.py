"""Batched matrix product. a: float32 (batch, rows, inner), b: float32 (batch, inner, columns)."""

import torch
import torch.nn as nn

batch = 5
rows = 19
inner = 31
columns = 22


class Model(nn.Module):
    def forward(self, a, b):
        return torch.bmm(a, b)


def get_inputs():
    return [torch.randn(batch, rows, inner), torch.randn(batch, inner, columns)]


def get_init_inputs():
    return []
