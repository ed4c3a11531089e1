"""A view and nothing else: heads split off and moved in front of the positions. x: float32 (batch, length, heads * width)."""

import torch
import torch.nn as nn

batch = 2
length = 15
heads = 4
width = 9


class Model(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.heads = heads

    def forward(self, x):
        batch, length, features = x.shape
        return x.view(batch, length, self.heads, features // self.heads).transpose(1, 2)


def get_inputs():
    return [torch.randn(batch, length, heads * width)]


def get_init_inputs():
    return [heads]
