"""Rotary position embedding on pairs of features.
x: float32 (batch, length, heads, 2 * half); cos and sin tables are buffers (length, half).
"""

import torch
import torch.nn as nn

batch = 2
length = 17
heads = 3
half = 8


class Model(nn.Module):
    def __init__(self, length, half):
        super().__init__()
        frequency = 100.0 ** (-torch.arange(half, dtype=torch.float32) / half)
        angle = torch.arange(length, dtype=torch.float32)[:, None] * frequency[None, :]
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, x):
        first, second = x.chunk(2, dim=-1)
        cos = self.cos[None, :, None, :]
        sin = self.sin[None, :, None, :]
        return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


def get_inputs():
    return [torch.randn(batch, length, heads, 2 * half)]


def get_init_inputs():
    return [length, half]
