"""Does a row hold a value below the limit? x: float32 (rows, columns) → bool (rows,)."""

import torch
import torch.nn as nn

rows = 150
columns = 40
limit = -2.2


class Model(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.limit = limit

    def forward(self, x):
        return (x < self.limit).any(dim=1)


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return [limit]
