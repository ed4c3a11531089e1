"""Group normalisation. x: float32 (batch, channels, height, width), channels in groups."""

import torch
import torch.nn as nn

batch = 2
channels = 12
groups = 3
height = 9
width = 13


class Model(nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs():
    return [groups, channels]
