"""Bilinear resize to a fixed size, corners not aligned. x: float32 (batch, channels, height, width)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 2
channels = 3
height = 12
width = 10
out_height = 19
out_width = 23


class Model(nn.Module):
    def __init__(self, out_height, out_width):
        super().__init__()
        self.size = (out_height, out_width)

    def forward(self, x):
        return F.interpolate(x, size=self.size, mode="bilinear", align_corners=False)


def get_inputs():
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs():
    return [out_height, out_width]
