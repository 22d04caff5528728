"""Contrastive losses: two views of one instance are told from the views of all others."""

from __future__ import annotations

import torch
from torch import Tensor


def contrastive_losses(first: Tensor, second: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Two views (n, d) of n instances -> (n,) loss, the mean over both views, and (n,) whether the first view's
    nearest neighbour is the second.

    By cosine similarity s, -s(own pair) / T + log sum exp(s(any other) / T): the pair itself is no part of the sum.
    One instance alone has no others to be told from: its loss is 0.
    """
    n = len(first)
    if n == 1:
        return 0 * (first * second).sum(dim=1), torch.ones(1, dtype=torch.bool, device=first.device)
    views = torch.nn.functional.normalize(torch.cat([first, second]), dim=1)
    similarity = views @ views.T / temperature  # (2n, 2n)
    pairs = torch.cat([similarity.diagonal(n), similarity.diagonal(-n)])  # (2n,)
    number = torch.arange(2 * n, device=views.device) % n
    others = similarity.masked_fill(number.unsqueeze(0) == number.unsqueeze(1), -torch.inf)
    losses = others.logsumexp(dim=1) - pairs
    nearest = pairs[:n] > others[:n].amax(dim=1)
    return losses.view(2, n).mean(dim=0), nearest


def mixed_contrastive_losses(
    mixed: Tensor, views: Tensor, other: Tensor, share: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    """Mixed views (n, d), of which `share` (n,) is instance `other` (n,), and a view (n, d) of every instance alone ->
    (n,) loss and (n,) whether the mixed view's nearest is its own instance's.

    By cosine similarity s, the mixed view's cross-entropy over all n views, own and other's as likely as its parts:
    -((1 - share) s(own) + share s(other's)) / T + log sum exp(s / T).
    """
    unit = torch.nn.functional.normalize
    similarity = unit(mixed, dim=1) @ unit(views, dim=1).T / temperature  # (n, n)
    own, others = similarity.diagonal(), similarity.gather(1, other.unsqueeze(1)).squeeze(1)
    losses = similarity.logsumexp(dim=1) - own.lerp(others, share)
    return losses, own >= similarity.amax(dim=1)
