"""Linear layer in bfloat16 with bias. x: bfloat16 (tokens, n_in)."""

import torch
import torch.nn as nn

tokens = 33
n_in = 72
n_out = 40


class Model(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.linear = nn.Linear(n_in, n_out).to(torch.bfloat16)

    def forward(self, x):
        return self.linear(x)


def get_inputs():
    return [torch.randn(tokens, n_in).to(torch.bfloat16)]


def get_init_inputs():
    return [n_in, n_out]
