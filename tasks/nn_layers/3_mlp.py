"""Perceptron with two hidden layers. x: float32 (batch, n_in) → (batch, n_out)."""

import torch
import torch.nn as nn

batch = 19
n_in = 40
hidden = 56
n_out = 10


class Model(nn.Module):
    def __init__(self, n_in, hidden, n_out):
        super().__init__()
        self.first = nn.Linear(n_in, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.last = nn.Linear(hidden, n_out)

    def forward(self, x):
        x = torch.relu(self.first(x))
        x = torch.tanh(self.second(x))
        return self.last(x)


def get_inputs():
    return [torch.randn(batch, n_in)]


def get_init_inputs():
    return [n_in, hidden, n_out]
