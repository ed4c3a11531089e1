"""ReLU, element by element. x: float32 (rows, columns), ragged."""

import torch
import torch.nn as nn

rows = 37
columns = 211


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return []
