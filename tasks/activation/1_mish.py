"""Mish, x tanh(softplus(x)). x: float32 (rows, columns)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

rows = 50
columns = 130


class Model(nn.Module):
    def forward(self, x):
        return x * torch.tanh(F.softplus(x))


def get_inputs():
    return [torch.randn(rows, columns) * 3.0]


def get_init_inputs():
    return []
