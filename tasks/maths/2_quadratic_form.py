"""x_i^T M x_i for every row, M a buffer. x: float32 (rows, size) → (rows,)."""

import torch
import torch.nn as nn

rows = 50
size = 33


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("matrix", torch.randn(size, size))

    def forward(self, x):
        return torch.einsum("ri,ij,rj->r", x, self.matrix, x)


def get_inputs():
    return [torch.randn(rows, size)]


def get_init_inputs():
    return [size]
