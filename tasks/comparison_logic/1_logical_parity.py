"""Exclusive or of two bool tensors, combined with a third by and-not. a, b, c: bool (rows, columns)."""

import torch
import torch.nn as nn

rows = 57
columns = 66


class Model(nn.Module):
    def forward(self, a, b, c):
        return torch.logical_and(torch.logical_xor(a, b), torch.logical_not(c))


def get_inputs():
    return [torch.rand(rows, columns) > 0.5, torch.rand(rows, columns) > 0.3, torch.rand(rows, columns) > 0.7]


def get_init_inputs():
    return []
