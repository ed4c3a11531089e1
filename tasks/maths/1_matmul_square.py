"""Square matrix product. a, b: float32 (size, size)."""

import torch
import torch.nn as nn

size = 64


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.randn(size, size), torch.randn(size, size)]


def get_init_inputs():
    return []
