"""Weighted count of integer keys. keys: int64 (count,), weights: float32 (count,) → (bins,)."""

import torch
import torch.nn as nn

count = 2500
bins = 19


class Model(nn.Module):
    def __init__(self, bins):
        super().__init__()
        self.bins = bins

    def forward(self, keys, weights):
        out = torch.zeros(self.bins, dtype=weights.dtype, device=weights.device)
        return out.index_add(0, keys, weights)


def get_inputs():
    return [torch.randint(0, bins, (count,)), torch.rand(count)]


def get_init_inputs():
    return [bins]
