"""Batch normalisation in training mode: statistics of the batch, running averages kept up. x: float32 (batch, channels, height, width)."""

import torch
import torch.nn as nn

batch = 4
channels = 5
height = 8
width = 11


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs():
    return [channels]
