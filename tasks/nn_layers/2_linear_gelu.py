"""Linear layer followed by exact GELU. x: float32 (tokens, n_in)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

tokens = 37
n_in = 66
n_out = 51


class Model(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.linear = nn.Linear(n_in, n_out)

    def forward(self, x):
        return F.gelu(self.linear(x))


def get_inputs():
    return [torch.randn(tokens, n_in)]


def get_init_inputs():
    return [n_in, n_out]
