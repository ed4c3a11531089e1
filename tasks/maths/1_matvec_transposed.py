"""Matrix times vector where the matrix comes as a transposed view.
a: float32 (rows, inner) with strides (1, rows), x: float32 (inner,). A kernel that assumes rows of the matrix to be
contiguous reads the wrong elements.
"""

import torch
import torch.nn as nn

rows = 75
inner = 140


class Model(nn.Module):
    def forward(self, a, x):
        return torch.mv(a, x)


def get_inputs():
    return [torch.randn(inner, rows).t(), torch.randn(inner)]


def get_init_inputs():
    return []
