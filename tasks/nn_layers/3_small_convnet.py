"""Two convolutions with pooling and a linear head, as for digits. x: float32 (batch, 1, size, size) → (batch, classes)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 2
size = 20
classes = 10


class Model(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 5)
        self.conv2 = nn.Conv2d(4, 8, 3)
        self.head = nn.Linear(8 * 3 * 3, classes)

    def forward(self, x):
        x = F.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = F.max_pool2d(torch.relu(self.conv2(x)), 2)
        return self.head(x.flatten(1))


def get_inputs():
    return [torch.randn(batch, 1, size, size)]


def get_init_inputs():
    return [classes]
