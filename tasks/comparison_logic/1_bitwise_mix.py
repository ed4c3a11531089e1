"""Shifts, and, or, exclusive or on integers. a, b: int32 (count,)."""

import torch
import torch.nn as nn

count = 5003


class Model(nn.Module):
    def forward(self, a, b):
        return ((a << 3) ^ (b >> 2)) | (a & b)


def get_inputs():
    return [torch.randint(-(2**20), 2**20, (count,), dtype=torch.int32), torch.randint(-(2**20), 2**20, (count,), dtype=torch.int32)]


def get_init_inputs():
    return []
