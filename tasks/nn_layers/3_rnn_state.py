"""Recurrent cell that keeps its hidden state between calls in a plain tensor attribute.
x: float32 (batch, n_in) → (batch, hidden). Every trial starts from the state the constructor made.
"""

import torch
import torch.nn as nn

batch = 6
n_in = 14
hidden = 22


class Model(nn.Module):
    def __init__(self, batch, n_in, hidden):
        super().__init__()
        self.from_input = nn.Linear(n_in, hidden)
        self.from_state = nn.Linear(hidden, hidden, bias=False)
        self.register_buffer("state", torch.randn(batch, hidden))

    def forward(self, x):
        self.state = torch.tanh(self.from_input(x) + self.from_state(self.state))
        return self.state


def get_inputs():
    return [torch.randn(batch, n_in)]


def get_init_inputs():
    return [batch, n_in, hidden]
