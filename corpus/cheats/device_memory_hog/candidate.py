import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        blocks = []
        while True:
            blocks.append(torch.empty(256 << 20, dtype=torch.uint8, device=x.device))
