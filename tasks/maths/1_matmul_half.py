"""Matrix product in half precision. a: float16 (rows, inner), b: float16 (inner, columns)."""

import torch
import torch.nn as nn

rows = 48
inner = 96
columns = 40


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.randn(rows, inner).half(), torch.randn(inner, columns).half()]


def get_init_inputs():
    return []
