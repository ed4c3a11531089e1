"""Embedding table as a parameter. tokens: int64 (batch, length) → float32 (batch, length, width)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

vocabulary = 97
width = 24
batch = 4
length = 21


class Model(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(vocabulary, width))

    def forward(self, tokens):
        return F.embedding(tokens, self.weight)


def get_inputs():
    return [torch.randint(0, vocabulary, (batch, length))]


def get_init_inputs():
    return [vocabulary, width]
