"""Reflection padding on the last axis, different on both sides. x: float32 (batch, channels, length)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 3
channels = 8
length = 50
left = 3
right = 5


class Model(nn.Module):
    def __init__(self, left, right):
        super().__init__()
        self.left = left
        self.right = right

    def forward(self, x):
        return F.pad(x, (self.left, self.right), mode="reflect")


def get_inputs():
    return [torch.randn(batch, channels, length)]


def get_init_inputs():
    return [left, right]
