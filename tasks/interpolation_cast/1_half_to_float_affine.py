"""Half-precision input widened to float32, scaled per column. x: float16 (rows, columns), scale: float32 (columns,)."""

import torch
import torch.nn as nn

rows = 34
columns = 143


class Model(nn.Module):
    def forward(self, x, scale):
        return x.to(scale.dtype) * scale + 0.5


def get_inputs():
    return [torch.randn(rows, columns).half(), torch.rand(columns) + 0.5]


def get_init_inputs():
    return []
