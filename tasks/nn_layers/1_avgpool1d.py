"""Average pooling whose padding counts as zeros. x: float32 (batch, channels, length)."""

import torch
import torch.nn as nn

batch = 3
channels = 9
length = 77
kernel = 4
stride = 3
padding = 2


class Model(nn.Module):
    def __init__(self, kernel, stride, padding):
        super().__init__()
        self.pool = nn.AvgPool1d(kernel, stride=stride, padding=padding)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.randn(batch, channels, length)]


def get_init_inputs():
    return [kernel, stride, padding]
