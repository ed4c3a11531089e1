"""Mean over the middle axis of a wide tensor. x: float32 (batch, length, features) → (batch, features)."""

import torch
import torch.nn as nn

batch = 24
length = 400
features = 4095


class Model(nn.Module):
    def forward(self, x):
        return x.mean(dim=1)


def get_inputs():
    return [torch.randn(batch, length, features)]


def get_init_inputs():
    return []
