"""Linear layer and dropout in evaluation mode, where dropout does nothing. x: float32 (batch, n_in) → (batch, n_out)."""

import torch
import torch.nn as nn

batch = 21
n_in = 45
n_out = 38
p = 0.25


class Model(nn.Module):
    def __init__(self, n_in, n_out, p):
        super().__init__()
        self.linear = nn.Linear(n_in, n_out)
        self.dropout = nn.Dropout(p)
        self.eval()

    def forward(self, x):
        return self.dropout(self.linear(x))


def get_inputs():
    return [torch.randn(batch, n_in)]


def get_init_inputs():
    return [n_in, n_out, p]
