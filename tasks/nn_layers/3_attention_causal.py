"""Causal attention over several heads, scores softmaxed, from ready queries, keys and values. q, k, v: float32 (batch, heads, length, width)."""

import torch
import torch.nn as nn

batch = 2
heads = 3
length = 21
width = 16


class Model(nn.Module):
    def forward(self, q, k, v):
        length = q.shape[-2]
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        mask = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
        return torch.softmax(scores.masked_fill(mask, float("-inf")), dim=-1) @ v


def get_inputs():
    return [torch.randn(batch, heads, length, width), torch.randn(batch, heads, length, width), torch.randn(batch, heads, length, width)]


def get_init_inputs():
    return []
