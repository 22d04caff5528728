"""Feature+Mean, Max, P-norm and LSE: one linear classifier, on the pooled feature of a bag and on each instance.

The pooling baselines of Shiku et al., "Counting Network for Learning from Majority Label" (max and
log-sum-exp pooling: Wang et al., "Revisiting Multiple Instance Neural Networks"). As published,
p = 4, LSE pools 4 h, and neither is divided by anything.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ...data.segments import Segments
from ...losses import BagOutput
from .base import Head

SHARPNESS = 4.0  # p of the norm, and the factor inside log-sum-exp, as published
MAX_SHARPNESS = 100.0


def p_norm(features: Tensor, segments: Segments, p: float = SHARPNESS) -> Tensor:
    """(n, d) -> (b, d): (sum relu(h)^p)^(1/p). The gradient is 0, not NaN, if no instance is above 0.

    Features are divided by the maximum of their bag before the power, so that nothing overflows.

    >>> p_norm(torch.tensor([[1e30, 0.0], [1e30, -1.0]]), Segments([2]))
    tensor([[1.1892e+30, 0.0000e+00]])
    """
    positive = segments.fill_dropped(features.relu(), 0)
    top = segments.max(positive.detach())  # (b, d); the norm does not depend on it, nor does the gradient
    some = top > 0
    scale = torch.where(some, top, 1.0)
    powers = segments.sum((positive / segments.spread(scale)) ** p)  # (b, d), at least 1 where some
    return torch.where(some, powers, 1.0) ** (1 / p) * top


POOLS: dict[str, Callable[[Tensor, Segments, float], Tensor]] = {
    "mean": lambda features, segments, _: segments.mean(features),
    "max": lambda features, segments, _: segments.max(features),
    "pnorm": p_norm,
    "lse": lambda features, segments, p: segments.logsumexp(p * features),
}


class FeaturePool(Head):
    def __init__(self, in_features: int, n_classes: int, pool: str = "mean", p: float | None = None):
        super().__init__()
        if pool not in POOLS:
            raise ValueError(f"pool={pool!r}: use one of {', '.join(POOLS)}")
        if p is not None and not (pool in ("pnorm", "lse") and 1 <= p <= MAX_SHARPNESS):
            raise ValueError(f"p={p}: only feature-pnorm and feature-lse have a p, from 1 to {MAX_SHARPNESS:g}")
        self.pool, self.p = pool, SHARPNESS if p is None else float(p)
        self.classifier = nn.Linear(in_features, n_classes)

    def aggregate(self, features: Tensor, segments: Segments) -> BagOutput:
        pooled = POOLS[self.pool](features, segments, self.p)  # (b, d)
        return BagOutput(self.classifier(features).log_softmax(dim=1), self.classifier(pooled).log_softmax(dim=1))
