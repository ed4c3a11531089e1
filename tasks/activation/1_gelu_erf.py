"""Exact GELU, 0.5 x (1 + erf(x / sqrt 2)). x: float32 (batch, length, features)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 3
length = 41
features = 96


class Model(nn.Module):
    def forward(self, x):
        return F.gelu(x)


def get_inputs():
    return [torch.randn(batch, length, features)]


def get_init_inputs():
    return []
