"""ELU in bfloat16 with alpha 1.5. x: bfloat16 (rows, columns)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

rows = 29
columns = 160
alpha = 1.5


class Model(nn.Module):
    def __init__(self, alpha):
        super().__init__()
        self.alpha = alpha

    def forward(self, x):
        return F.elu(x, alpha=self.alpha)


def get_inputs():
    return [torch.randn(rows, columns).to(torch.bfloat16)]


def get_init_inputs():
    return [alpha]
