"""SwiGLU gate of two inputs, silu(gate) * value. Both float32 (tokens, features)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

tokens = 45
features = 172


class Model(nn.Module):
    def forward(self, gate, value):
        return F.silu(gate) * value


def get_inputs():
    return [torch.randn(tokens, features), torch.randn(tokens, features)]


def get_init_inputs():
    return []
