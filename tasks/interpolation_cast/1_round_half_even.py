"""Rounding to whole numbers, halves to the even neighbour; half of the inputs are exact halves. x: float32 (rows, columns)."""

import torch
import torch.nn as nn

rows = 45
columns = 90


class Model(nn.Module):
    def forward(self, x):
        return torch.round(x * 0.5) + 0.25


def get_inputs():
    return [torch.randint(-50, 50, (rows, columns)).float()]


def get_init_inputs():
    return []
