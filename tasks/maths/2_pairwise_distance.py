"""Squared Euclidean distances between two point sets. a: float32 (n, d), b: float32 (m, d) → (n, m)."""

import torch
import torch.nn as nn

n = 40
m = 51
d = 13


class Model(nn.Module):
    def forward(self, a, b):
        difference = a[:, None, :] - b[None, :, :]
        return (difference * difference).sum(dim=-1)


def get_inputs():
    return [torch.randn(n, d), torch.randn(m, d)]


def get_init_inputs():
    return []
