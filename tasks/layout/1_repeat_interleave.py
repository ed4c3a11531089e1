"""Every row repeated a fixed number of times. x: float32 (rows, columns) → (repeats * rows, columns)."""

import torch
import torch.nn as nn

rows = 28
columns = 55
repeats = 3


class Model(nn.Module):
    def __init__(self, repeats):
        super().__init__()
        self.repeats = repeats

    def forward(self, x):
        return torch.repeat_interleave(x, self.repeats, dim=0)


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return [repeats]
