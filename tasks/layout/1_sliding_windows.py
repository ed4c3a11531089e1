"""Overlapping windows of a signal. x: float32 (batch, length) → (batch, windows, window)."""

import torch
import torch.nn as nn

batch = 6
length = 130
window = 16
step = 5


class Model(nn.Module):
    def __init__(self, window, step):
        super().__init__()
        self.window = window
        self.step = step

    def forward(self, x):
        return x.unfold(1, self.window, self.step).contiguous()


def get_inputs():
    return [torch.randn(batch, length)]


def get_init_inputs():
    return [window, step]
