"""Rows of a table by index. table: float32 (entries, features), index: int64 (count,)."""

import torch
import torch.nn as nn

entries = 50
features = 37
count = 120


class Model(nn.Module):
    def forward(self, table, index):
        return table[index]


def get_inputs():
    return [torch.randn(entries, features), torch.randint(0, entries, (count,))]


def get_init_inputs():
    return []
