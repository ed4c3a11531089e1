"""Log-softmax over axis 1 after division by a temperature. x: float32 (batch, classes, positions)."""

import torch
import torch.nn as nn

batch = 4
classes = 37
positions = 19
temperature = 0.7


class Model(nn.Module):
    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature

    def forward(self, x):
        return torch.log_softmax(x / self.temperature, dim=1)


def get_inputs():
    return [torch.randn(batch, classes, positions)]


def get_init_inputs():
    return [temperature]
