"""All pairwise absolute differences. a: float32 (n,), b: float32 (m,) → (n, m)."""

import torch
import torch.nn as nn

n = 83
m = 59


class Model(nn.Module):
    def forward(self, a, b):
        return (a[:, None] - b[None, :]).abs()


def get_inputs():
    return [torch.randn(n), torch.randn(m)]


def get_init_inputs():
    return []
