"""Gated recurrent unit over a short sequence; the whole output and the last state. x: float32 (length, batch, n_in)."""

import torch
import torch.nn as nn

length = 7
batch = 3
n_in = 12
hidden = 16


class Model(nn.Module):
    def __init__(self, n_in, hidden):
        super().__init__()
        self.gru = nn.GRU(n_in, hidden)

    def forward(self, x):
        output, state = self.gru(x)
        return output, state


def get_inputs():
    return [torch.randn(length, batch, n_in)]


def get_init_inputs():
    return [n_in, hidden]
