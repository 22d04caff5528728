"""Contrastive losses: each view of an instance should be closer to the other view than to all other instances."""

from __future__ import annotations

import torch
from torch import Tensor


def contrastive_losses(first: Tensor, second: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Two views (n, d) of n instances -> (n,) losses, the mean over both views, and (n,) whether the second view is
    the nearest neighbour of the first.

    With the cosine similarity s, a loss is -s(pair) / T + log sum exp(s(other) / T) over the views of all other
    instances; the pair itself is not part of the sum. A single instance has no others: its loss is 0.
    """
    n = len(first)
    if n == 1:
        return 0 * (first * second).sum(dim=1), torch.ones(1, dtype=torch.bool, device=first.device)
    views = torch.nn.functional.normalize(torch.cat([first, second]), dim=1)
    similarity = views @ views.T / temperature  # (2n, 2n)
    pairs = torch.cat([similarity.diagonal(n), similarity.diagonal(-n)])  # (2n,)
    instance = torch.arange(2 * n, device=views.device) % n
    others = similarity.masked_fill(instance.unsqueeze(0) == instance.unsqueeze(1), -torch.inf)
    losses = others.logsumexp(dim=1) - pairs
    nearest = pairs[:n] > others[:n].amax(dim=1)
    return losses.view(2, n).mean(dim=0), nearest


def mixed_contrastive_losses(
    mixed: Tensor, views: Tensor, other: Tensor, share: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    """Mixed views (n, d), a `share` (n,) of which is instance `other` (n,), and an unmixed view (n, d) of every
    instance -> (n,) losses and (n,) whether the nearest unmixed view is that of the same instance.

    With the cosine similarity s, the cross-entropy over all n views, whose target has 1 - share for the instance and
    share for the other: -((1 - share) s(same) + share s(other)) / T + log sum exp(s / T).
    """
    unit = torch.nn.functional.normalize
    similarity = unit(mixed, dim=1) @ unit(views, dim=1).T / temperature  # (n, n)
    same, others = similarity.diagonal(), similarity.gather(1, other.unsqueeze(1)).squeeze(1)
    losses = similarity.logsumexp(dim=1) - same.lerp(others, share)
    return losses, same >= similarity.amax(dim=1)
