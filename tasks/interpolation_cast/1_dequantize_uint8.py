"""Affine dequantisation, (q - zero) * scale. q: uint8 (rows, columns), scale: float32 (columns,), zero: int32 (columns,)."""

import torch
import torch.nn as nn

rows = 58
columns = 83


class Model(nn.Module):
    def forward(self, q, scale, zero):
        return (q.to(scale.dtype) - zero.to(scale.dtype)) * scale


def get_inputs():
    return [torch.randint(0, 256, (rows, columns), dtype=torch.uint8), torch.rand(columns) + 0.1, torch.randint(100, 150, (columns,), dtype=torch.int32)]


def get_init_inputs():
    return []
