import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n_in, hidden, n_out):
        super().__init__()
        self.first = nn.Linear(n_in, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.last = nn.Linear(hidden, n_out)

    def forward(self, x):
        x = torch.relu(self.first(x))
        x = torch.tanh(self.second(x))
        return self.last(x)
