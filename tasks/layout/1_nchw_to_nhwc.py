"""Image batch from channels first to channels last, as a contiguous copy. x: float32 (batch, channels, height, width)."""

import torch
import torch.nn as nn

batch = 3
channels = 5
height = 14
width = 19


class Model(nn.Module):
    def forward(self, x):
        return x.permute(0, 2, 3, 1).contiguous()


def get_inputs():
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs():
    return []
