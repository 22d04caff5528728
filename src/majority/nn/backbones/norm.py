"""Batch norm that accepts a batch with one value per channel: then training uses the running statistics too."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import batch_norm


class _AcceptsSingleValues(nn.modules.batchnorm._BatchNorm):
    def forward(self, x: Tensor) -> Tensor:
        if self.training and x.numel() == x.shape[1]:  # one value has no standard deviation; torch refuses it
            return batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        return super().forward(x)


class BatchNorm1d(_AcceptsSingleValues, nn.BatchNorm1d):
    """(n, d), n from 1 up."""


class BatchNorm2d(_AcceptsSingleValues, nn.BatchNorm2d):
    """(n, channels, height, width), down to one instance with one position."""
