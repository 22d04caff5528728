"""Discriminants: directions in which the mean instances of bags with different labels differ."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..data.bags import Bags
from ..data.device import choose_device, instances_per_pass
from ..inference.evaluate import all_batches
from ..model import Model

WIDEST = 4096  # features: a table of so many squared is held and taken apart
VARIES = 1e-6  # of the most that any direction varies: less is rounding
UNITS = 100  # features that vary so many times as much as others, or more, are in other units


def is_applicable(bags: Bags) -> bool:
    """Vectors that are not too wide, a bag of every label, and bags to see by how much those of one label differ."""
    counts = np.bincount(bags.labels, minlength=len(bags.classes))
    return bags.store.ndim == 2 and bags.store.shape[1] <= WIDEST and counts.min() > 0 and len(bags) > len(counts)


@torch.no_grad()
def discriminants(model: Model, bags: Bags, device: str = "auto") -> Tensor:  # (C, d) float32
    """Weights of the features, as the model normalises them, for each label: how the mean of its bags differs from that
    of others, in units of how much instances vary.

    Bags are few and labels with them, but how instances vary is told by all of them, labels or not: Fisher's linear
    discriminants need no more. What differs by chance alone is held back: in each direction, by the share that the
    difference of bags with one label leads to expect. Directions of about the same variance are judged together, as
    features of networks and principal components tell more where they vary more; units count for less.
    """
    device = choose_device(device)
    model.to(device)
    width, classes = bags.store.shape[1], len(bags.classes)
    zeros = lambda *shape: torch.zeros(*shape, dtype=torch.float64, device=device)
    total, squares, of_label, of_bags = zeros(width), zeros(width, width), zeros(classes, width), zeros(width, width)
    deviations = model.normalise.std.double()
    scale = (deviations / deviations.median()).clamp(1 / UNITS, UNITS).sqrt()
    most = instances_per_pass(bags.store.shape[1:])
    for batch in all_batches(bags, device):
        sums = zeros(len(batch.segments), width)
        for piece, of_bag in zip(batch.pieces(most), batch.segments.ids.split(most), strict=True):
            instances = model.normalise(piece).double() * scale
            total += instances.sum(dim=0)
            squares += instances.T @ instances
            sums.index_add_(0, of_bag, instances)
        means = sums / batch.segments.sizes.unsqueeze(1)
        of_label.index_add_(0, batch.target.labels, means)
        of_bags += means.T @ means

    n = len(bags.index)
    variances, directions = torch.linalg.eigh(squares / n - torch.outer(total, total) / n**2)
    varies = variances > VARIES * variances[-1]
    whitening = (directions[:, varies] / variances[varies].sqrt()).flip(1)  # (d, k), what varies most first

    counts = torch.from_numpy(np.bincount(bags.labels, minlength=classes)).to(of_label)
    of_label /= counts.unsqueeze(1)
    within = (of_bags - (of_label * counts.unsqueeze(1)).T @ of_label) / (len(bags) - classes)
    chance = ((within @ whitening) * whitening).sum(dim=0) * (1 / counts).mean()  # (k,) of a label's mean
    apart = (of_label - of_label.mean(dim=0)) @ whitening  # (C, k)
    seen = apart.square().sum(dim=0) / (classes - 1)
    chance, seen = _among_neighbours(chance), _among_neighbours(seen)
    apart = apart * torch.where(seen > chance, 1 - chance / seen, 0)  # where bags are all alike, nothing is seen
    size = apart.square().sum(dim=1).mean().sqrt().clamp(min=1e-12)  # so that what is read varies by 1
    return (apart / size @ whitening.T * scale).float()


def _among_neighbours(values: Tensor) -> Tensor:
    """Means over a quarter of one's place to both sides, and two places at least.

    >>> _among_neighbours(torch.tensor([0.0, 0.0, 3.0, 0.0, 0.0, 0.0])).tolist()
    [1.0, 0.75, 0.6000000238418579, 0.6000000238418579, 0.75, 0.0]
    """
    place = torch.arange(len(values), device=values.device)
    reach = (place // 4).clamp(min=2)
    first, after = (place - reach).clamp(min=0), (place + reach + 1).clamp(max=len(values))
    sums = torch.cat([values.new_zeros(1), values.cumsum(0)])
    return (sums[after] - sums[first]) / (after - first)
