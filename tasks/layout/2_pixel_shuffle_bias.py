"""Pixel shuffle by two and a bias per output channel. x: float32 (batch, 4 * channels, height, width)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 2
channels = 3
height = 13
width = 18


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(channels))

    def forward(self, x):
        return F.pixel_shuffle(x, 2) + self.bias.view(1, -1, 1, 1)


def get_inputs():
    return [torch.randn(batch, 4 * channels, height, width)]


def get_init_inputs():
    return [channels]
