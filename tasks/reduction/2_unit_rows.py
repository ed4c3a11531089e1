"""Rows scaled to unit length, columns by a learned weight; rows of zeros stay zeros. x: float32 (rows, columns)."""

import torch
import torch.nn as nn

rows = 47
columns = 200


class Model(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(columns) + 0.5)

    def forward(self, x):
        length = torch.sqrt((x * x).sum(dim=1, keepdim=True))
        return x / torch.clamp(length, min=1e-6) * self.weight


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return [columns]


MUSACODER_CASES = [
    {"name": "all zeros", "values": "zeros"},
    {"name": "far from zero", "values": [90.0, 110.0]},
    {"name": "unaligned columns", "set": {"columns": 67}},
    {"name": "single row", "set": {"rows": 1}},
    {"name": "transposed", "layout": "transposed"},
    {"name": "strided", "layout": "strided"},
    {"name": "float16", "dtype": "float16"},
    {"name": "no rows", "set": {"rows": 0}},
]
