"""Batch norm that takes a batch of one value a channel: there, training too uses the running statistics."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import batch_norm


class _RunningWhereAlone:
    def forward(self, x: Tensor) -> Tensor:
        if self.training and x.numel() == x.shape[1]:  # one value has no deviation; torch refuses it
            return batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        return super().forward(x)


class BatchNorm1d(_RunningWhereAlone, nn.BatchNorm1d):
    """(n, d), n from 1 up."""


class BatchNorm2d(_RunningWhereAlone, nn.BatchNorm2d):
    """(n, channels, height, width), down to one instance of one position."""
