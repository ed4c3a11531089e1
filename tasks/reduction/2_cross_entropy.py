"""Mean cross entropy from logits and class labels. logits: float32 (rows, classes), labels: int64 (rows,) → scalar tensor."""

import torch
import torch.nn as nn
import torch.nn.functional as F

rows = 70
classes = 31


class Model(nn.Module):
    def forward(self, logits, labels):
        return F.cross_entropy(logits, labels)


def get_inputs():
    return [torch.randn(rows, classes) * 2.0, torch.randint(0, classes, (rows,))]


def get_init_inputs():
    return []
