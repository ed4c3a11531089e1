import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, row, column):
        return x + row + 2.0 * column
