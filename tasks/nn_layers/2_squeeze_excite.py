"""Squeeze and excitation: channel means through two small linear layers gate the channels. x: float32 (batch, channels, height, width)."""

import torch
import torch.nn as nn

batch = 3
channels = 10
hidden = 4
height = 11
width = 12


class Model(nn.Module):
    def __init__(self, channels, hidden):
        super().__init__()
        self.down = nn.Linear(channels, hidden)
        self.up = nn.Linear(hidden, channels)

    def forward(self, x):
        gate = torch.sigmoid(self.up(torch.relu(self.down(x.mean(dim=(2, 3))))))
        return x * gate[:, :, None, None]


def get_inputs():
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs():
    return [channels, hidden]
