"""Pre-norm transformer block: attention over heads and a GELU feed-forward part, both residual. x: float32 (batch, length, features)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 2
length = 10
features = 24
heads = 3


class Model(nn.Module):
    def __init__(self, features, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(features)
        self.norm2 = nn.LayerNorm(features)
        self.qkv = nn.Linear(features, 3 * features)
        self.project = nn.Linear(features, features)
        self.widen = nn.Linear(features, 2 * features)
        self.narrow = nn.Linear(2 * features, features)

    def forward(self, x):
        batch, length, features = x.shape
        q, k, v = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        scores = torch.softmax(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5, dim=-1)
        x = x + self.project((scores @ v).transpose(1, 2).reshape(batch, length, features))
        return x + self.narrow(F.gelu(self.widen(self.norm2(x))))


def get_inputs():
    return [torch.randn(batch, length, features)]


def get_init_inputs():
    return [features, heads]
