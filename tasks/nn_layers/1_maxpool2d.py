"""Max pooling with overlap and padding. x: float32 (batch, channels, height, width)."""

import torch
import torch.nn as nn

batch = 2
channels = 6
height = 19
width = 22
kernel = 3
stride = 2
padding = 1


class Model(nn.Module):
    def __init__(self, kernel, stride, padding):
        super().__init__()
        self.pool = nn.MaxPool2d(kernel, stride=stride, padding=padding)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs():
    return [kernel, stride, padding]
