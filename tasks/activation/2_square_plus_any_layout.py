"""(x + sqrt(x² + b)) / 2, element by element, for inputs in any memory layout. x: float32 (rows, columns)."""

import torch
import torch.nn as nn

rows = 61
columns = 77


class Model(nn.Module):
    def __init__(self, b):
        super().__init__()
        self.b = b

    def forward(self, x):
        return (x + torch.sqrt(x * x + self.b)) / 2


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return [1.5]


# The layouts are part of what is asked for; the dtype is not.
MUSACODER_CASES = [
    {"name": "transposed", "layout": "transposed", "required": True},
    {"name": "strided", "layout": "strided", "required": True},
    {"name": "bfloat16", "dtype": "bfloat16"},
]
