"""Batch norm in a training of several processes: mean and variance are those of the whole step.

torch's own SyncBatchNorm runs on GPUs only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm

from ..nn.backbones.norm import BatchNorm1d, BatchNorm2d
from . import distributed

BatchNorm = nn.modules.batchnorm._BatchNorm


class SharedNorms:
    """Replaces the training pass of all batch norms in a network, within the context `of_network`.

    `counts` says whether the rows of this process belong to the step; otherwise they are normalised like the others,
    but are not part of mean and variance.
    """

    counts = True

    @contextmanager
    def of_network(self, network: nn.Module) -> Iterator[None]:
        found = [module for module in network.modules() if isinstance(module, BatchNorm)]
        known = [module for module in found if _is_known(module)]
        others = {type(module).__name__ for module in found if not _is_known(module)}
        if others and distributed.is_first():
            names = ", ".join(sorted(others))
            print(f"majority: {names} use mean and variance of one process's part of a step", file=sys.stderr)

        def forward(module: nn.Module, x: Tensor) -> Tensor:
            if not module.training:
                return type(module).forward(module, x)
            return self._normalise(module, x)

        for module in known:
            module.forward = MethodType(forward, module)  # type: ignore[method-assign]  # of one object, for a while
        try:
            yield
        finally:
            for module in known:
                del module.forward

    def _normalise(self, norm: Any, x: Tensor) -> Tensor:
        normalised, mean, variance, values = _Normalise.apply(  # type: ignore[no-untyped-call]  # torch's lack
            x, norm.weight, norm.bias, norm.running_mean, norm.running_var, norm.eps, self.counts
        )
        if norm.running_mean is not None:
            with torch.no_grad():
                several = values > 1
                norm.num_batches_tracked.add_(several)
                share = 1 / norm.num_batches_tracked if norm.momentum is None else norm.momentum
                unbiased = variance * values / (values - 1).clamp(min=1)
                for running, new in ((norm.running_mean, mean), (norm.running_var, unbiased)):
                    running.copy_(torch.where(several, torch.lerp(running, new.to(running.dtype), share), running))
        return normalised


def _is_known(module: nn.Module) -> bool:
    return isinstance(module, BatchNorm1d | BatchNorm2d) or type(module).forward is BatchNorm.forward


class _Normalise(torch.autograd.Function):
    """(n, channels, ...) -> the same shape, and mean, variance and number of values per channel over all processes.

    One value per channel has no variance: it is normalised with the running statistics, as in `backbones.norm`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        eps: float,
        counts: bool,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        precise = torch.promote_types(x.dtype, torch.float32)
        over, shape = _dimensions(x)
        mean = x.to(precise).mean(over)
        variance = (x.to(precise) - mean.view(shape)).square_().mean(over)  # var_mean is far slower on a CPU
        number = mean.new_full((1,), x.numel() // x.shape[1] * counts)
        rows = distributed.gather(torch.cat([number, mean, variance]).unsqueeze(0), [1] * distributed.size())
        numbers, means, variances = rows.split([1, len(mean), len(mean)], dim=1)  # one row per process
        values = numbers.sum()
        mean = (numbers * means).sum(dim=0) / values
        variance = (numbers * (variances + (means - mean) ** 2)).sum(dim=0) / values
        from_step = (values > 1).to(precise)  # 0: the running statistics are used, which are constants
        used_mean, used_variance = mean, variance
        if running_mean is not None and running_var is not None:
            used_mean = torch.where(values > 1, mean, running_mean.to(precise))
            used_variance = torch.where(values > 1, variance, running_var.to(precise))
        scale = (used_variance + eps).rsqrt()
        ctx.save_for_backward(x, weight, used_mean, scale, from_step * counts / values)
        normalised = batch_norm(x, used_mean, used_variance, weight, bias, eps=eps)
        ctx.mark_non_differentiable(mean, variance, values)
        return normalised, mean, variance, values

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *unused: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, scale, share = ctx.saved_tensors
        over, shape = _dimensions(x)
        gradient = gradient.to(mean.dtype)
        centred = x.to(mean.dtype) - mean.view(shape)
        to_bias, to_weight = gradient.sum(over), (gradient * centred).sum(over) * scale
        mean_gradient, mean_product = (distributed.total(torch.stack([to_bias, to_weight])) * share).unbind()
        factor = scale if weight is None else scale * weight
        to_x = (gradient - mean_gradient.view(shape)) * factor.view(shape)
        to_x = to_x.addcmul_(centred, (-factor * scale * mean_product).view(shape)).to(x.dtype)
        of_norm = (None, None) if weight is None else (to_weight.to(weight.dtype), to_bias.to(weight.dtype))
        return (to_x, *of_norm, None, None, None, None)


def _dimensions(x: Tensor) -> tuple[list[int], list[int]]:
    """All dimensions but that of the channels, and the shape in which one value per channel fits x."""
    over = [d for d in range(x.ndim) if d != 1]
    return over, [1, -1, *[1] * (x.ndim - 2)]
