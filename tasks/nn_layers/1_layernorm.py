"""Layer normalisation over the last axis with learned scale and shift. x: float32 (batch, length, features)."""

import torch
import torch.nn as nn

batch = 3
length = 15
features = 145


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(batch, length, features)]


def get_init_inputs():
    return [features]
