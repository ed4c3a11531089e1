"""GLU on a tensor cut in two along the channels: a * sigmoid(b). x: float32 (batch, 2 * channels, length)."""

import torch
import torch.nn as nn

batch = 3
channels = 11
length = 75


class Model(nn.Module):
    def forward(self, x):
        value, gate = x.chunk(2, dim=1)
        return value * torch.sigmoid(gate)


def get_inputs():
    return [torch.randn(batch, 2 * channels, length)]


def get_init_inputs():
    return []
