"""Python-style remainder of integers, sign of the divisor. a, b: int32 (rows, columns), b is never 0."""

import torch
import torch.nn as nn

rows = 40
columns = 77


class Model(nn.Module):
    def forward(self, a, b):
        return torch.remainder(a, b)


def get_inputs():
    a = torch.randint(-1000, 1000, (rows, columns), dtype=torch.int32)
    b = torch.randint(1, 17, (rows, columns), dtype=torch.int32)
    sign = torch.randint(0, 2, (rows, columns), dtype=torch.int32) * 2 - 1
    return [a, b * sign]


def get_init_inputs():
    return []
