"""Four bytes packed into one 32-bit integer, lowest first. x: uint8 (rows, 4 * words) → int32 (rows, words)."""

import torch
import torch.nn as nn

rows = 26
words = 37


class Model(nn.Module):
    def forward(self, x):
        parts = x.view(x.shape[0], -1, 4).to(torch.int32)
        return parts[..., 0] | (parts[..., 1] << 8) | (parts[..., 2] << 16) | (parts[..., 3] << 24)


def get_inputs():
    return [torch.randint(0, 256, (rows, 4 * words), dtype=torch.uint8)]


def get_init_inputs():
    return []
