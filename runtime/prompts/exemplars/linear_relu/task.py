import torch
import torch.nn as nn

rows = 45
inner = 70
columns = 53


class Model(nn.Module):
    def __init__(self, inner, columns):
        super().__init__()
        self.linear = nn.Linear(inner, columns)

    def forward(self, x):
        return torch.relu(self.linear(x))


def get_inputs():
    return [torch.randn(rows, inner)]


def get_init_inputs():
    return [inner, columns]
