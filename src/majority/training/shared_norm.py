"""Batch norm in a training of several processes: mean and variance are those of the whole step.

torch's own SyncBatchNorm runs on GPUs only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import MethodType

import torch
from torch import Tensor, nn

from ..nn.backbones.norm import BatchNorm1d, BatchNorm2d
from . import distributed

NORMS = (BatchNorm1d.forward, BatchNorm2d.forward, nn.BatchNorm1d.forward)  # others keep their own code


@contextmanager
def shared_norms(network: nn.Module) -> Iterator[None]:
    """Replace the training pass of all batch norms in the network."""
    norms = [module for module in network.modules() if type(module).forward in NORMS]
    for norm in norms:
        norm.forward = MethodType(_normalise, norm)  # of one object, for a while
    try:
        yield
    finally:
        for norm in norms:
            del norm.forward


def _normalise(norm: nn.BatchNorm1d, x: Tensor) -> Tensor:
    """(n, channels, ...). One value per channel has no variance: it is normalised with the running statistics."""
    if not norm.training:
        return type(norm).forward(norm, x)
    over, shape = [d for d in range(x.ndim) if d != 1], [1, -1, *[1] * (x.ndim - 2)]
    precise = x.to(torch.promote_types(x.dtype, torch.float32))
    own = precise.new_tensor([x.numel() / x.shape[1]])
    count, sums = distributed.total(torch.cat([own, precise.sum(over)])).tensor_split([1])
    mean = sums / count
    variance = distributed.total((precise - mean.view(shape)).square().sum(over)) / count
    several = count > 1
    used_mean, used_variance = mean, variance
    if norm.running_mean is not None and norm.running_var is not None and norm.num_batches_tracked is not None:
        used_mean = torch.where(several, mean, norm.running_mean)
        used_variance = torch.where(several, variance, norm.running_var)
        with torch.no_grad():
            norm.num_batches_tracked.add_(several.squeeze())
            share = 1 / norm.num_batches_tracked if norm.momentum is None else norm.momentum
            unbiased = variance * count / (count - 1).clamp(min=1)
            for running, new in ((norm.running_mean, mean), (norm.running_var, unbiased)):
                running.copy_(torch.where(several, torch.lerp(running, new.to(running.dtype), share), running))
    normalised = (precise - used_mean.view(shape)) * (used_variance + norm.eps).rsqrt().view(shape)
    if norm.affine:
        normalised = normalised * norm.weight.view(shape) + norm.bias.view(shape)
    return normalised.to(x.dtype)
