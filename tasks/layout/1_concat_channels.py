"""Two feature maps joined along the channels. a: float32 (batch, c1, size), b: float32 (batch, c2, size)."""

import torch
import torch.nn as nn

batch = 4
c1 = 5
c2 = 9
size = 63


class Model(nn.Module):
    def forward(self, a, b):
        return torch.cat([a, b], dim=1)


def get_inputs():
    return [torch.randn(batch, c1, size), torch.randn(batch, c2, size)]


def get_init_inputs():
    return []
