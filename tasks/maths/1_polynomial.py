"""Cubic polynomial by Horner's rule with coefficients kept in a buffer. x: float32 (rows, columns)."""

import torch
import torch.nn as nn

rows = 41
columns = 150
coefficients = [0.25, -1.5, 0.75, 2.0]


class Model(nn.Module):
    def __init__(self, coefficients):
        super().__init__()
        self.register_buffer("coefficients", torch.tensor(coefficients))

    def forward(self, x):
        c = self.coefficients
        return ((c[3] * x + c[2]) * x + c[1]) * x + c[0]


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return [coefficients]
