"""Lower triangle with a diagonal offset, the rest zero. x: float32 (batch, size, size)."""

import torch
import torch.nn as nn

batch = 3
size = 45
offset = -2


class Model(nn.Module):
    def __init__(self, offset):
        super().__init__()
        self.offset = offset

    def forward(self, x):
        return torch.tril(x, diagonal=self.offset)


def get_inputs():
    return [torch.randn(batch, size, size)]


def get_init_inputs():
    return [offset]
