"""Contrastive losses: each view of an instance should be closer to the other view than to all other instances.

In a training of several processes, the other instances are those of all processes: `parts` has the number of instances
of each.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from . import distributed


def contrastive_losses(
    first: Tensor, second: Tensor, temperature: float, parts: Sequence[int] | None = None
) -> tuple[Tensor, Tensor]:
    """Two views (n, d) of n instances -> (n,) losses, the mean over both views, and (n,) whether the second view is
    the nearest neighbour of the first.

    With the cosine similarity s, a loss is -s(pair) / T + log sum exp(s(other) / T) over the views of all other
    instances; the pair itself is not part of the sum. A single instance has no others: its loss is 0.
    """
    n = len(first)
    total, start = (n, 0) if parts is None else (sum(parts), _start(parts))
    if total == 1:
        return 0 * (first * second).sum(dim=1), torch.ones(1, dtype=torch.bool, device=first.device)
    views = torch.nn.functional.normalize(torch.cat([first, second]), dim=1)
    all_views = views
    if parts is not None:
        all_views = torch.cat([distributed.gather(half, parts) for half in views.chunk(2)])  # (2N, d)
    similarity = views @ all_views.T / temperature  # (2n, 2N)
    instance = torch.arange(start, start + n, device=views.device)
    pairs = similarity.gather(1, torch.cat([instance + total, instance]).unsqueeze(1)).squeeze(1)  # (2n,)
    of_column = torch.arange(2 * total, device=views.device) % total
    others = similarity.masked_fill(of_column.unsqueeze(0) == instance.repeat(2).unsqueeze(1), -torch.inf)
    losses = others.logsumexp(dim=1) - pairs
    nearest = pairs[:n] > others[:n].amax(dim=1)
    return losses.view(2, n).mean(dim=0), nearest


def mixed_contrastive_losses(
    mixed: Tensor,
    views: Tensor,
    other: Tensor,
    share: Tensor,
    temperature: float,
    parts: Sequence[int] | None = None,
) -> tuple[Tensor, Tensor]:
    """Mixed views (n, d), a `share` (n,) of which is instance `other` (n,), and an unmixed view (n, d) of every
    instance -> (n,) losses and (n,) whether the nearest unmixed view is that of the same instance.

    With the cosine similarity s, the cross-entropy over all n views, whose target has 1 - share for the instance and
    share for the other: -((1 - share) s(same) + share s(other)) / T + log sum exp(s / T).
    """
    mixed, views = (torch.nn.functional.normalize(each, dim=1) for each in (mixed, views))
    own = torch.arange(len(views), device=views.device) + (_start(parts) if parts else 0)
    similarity = mixed @ distributed.gather(views, parts).T / temperature  # (n, N)
    same, others = (similarity.gather(1, column.unsqueeze(1)).squeeze(1) for column in (own, own[other]))
    losses = similarity.logsumexp(dim=1) - same.lerp(others, share)
    return losses, same >= similarity.amax(dim=1)


def _start(parts: Sequence[int]) -> int:
    """The place of this process's first instance among all."""
    return sum(parts[: distributed.rank()])
