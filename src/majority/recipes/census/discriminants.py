"""Discriminants: directions in which the mean instances of bags with different labels differ."""

from __future__ import annotations

import torch
from torch import Tensor

from ...data.bags import Bags
from ...data.device import choose_device, instances_per_pass
from ...nn.model import Model
from ...predict.evaluate import all_batches

MAX_FEATURES = 4096  # a square matrix of this size is held in memory and decomposed
SMALLEST_VARIANCE = 1e-6  # relative to the largest: directions that vary less are rounding errors
MAX_SCALE = 100  # features whose deviations differ by more than this factor are in different units


@torch.no_grad()
def discriminants(model: Model, bags: Bags, device: str = "auto") -> Tensor:  # (C, d) float32
    """One weight vector per label, for features as the model normalises them: how the mean of its bags differs from
    that of other bags, in units of the variation of instances. That of a background, which is no label, is 0.

    This is Fisher's linear discriminant on bag means. Labelled bags are few, but the covariance of instances is
    estimated from all of them. Differences that chance would explain are shrunk (empirical Bayes): in each direction,
    by the share that the differences between bags of the same label lead to expect. Directions of similar variance are
    judged together, because features of networks and principal components carry more information where they vary
    more; units of measurement matter less.
    """
    chosen = choose_device(device)
    if chosen.type == "mps":
        chosen = torch.device("cpu")  # MPS has no float64
    model.to(chosen)
    width, classes = bags.store.shape[1], len(bags.classes)

    def zeros(*shape: int) -> Tensor:
        return torch.zeros(*shape, dtype=torch.float64, device=chosen)

    deviations = model.normalise.std.double()
    scale = (deviations / deviations.median()).clamp(1 / MAX_SCALE, MAX_SCALE).sqrt()
    most = instances_per_pass(bags.store.shape[1:])

    total, squares = zeros(width), zeros(width, width)
    label_sums, bag_squares = zeros(classes, width), zeros(width, width)
    for batch in all_batches(bags, chosen):
        segments, sums = batch.segments, zeros(len(batch.segments), width)
        rows = zip(segments.ids.split(most), segments.weigh(zeros(segments.n, 1) + 1).split(most), strict=True)
        for piece, (bag_ids, weights) in zip(batch.pieces(most), rows, strict=True):
            instances = model.normalise(piece).double() * scale
            total += instances.sum(dim=0)
            squares += instances.T @ instances
            sums.index_add_(0, bag_ids, instances * weights)
        named = batch.target.allowed.sum(dim=1) == 1  # other bags take part in the variation of instances only
        means = (sums / segments.sizes.unsqueeze(1))[named]
        label_sums.index_add_(0, batch.target.labels[named], means)
        bag_squares += means.T @ means
    n = len(bags.index)
    variances, directions = torch.linalg.eigh(squares / n - torch.outer(total, total) / n**2)
    varies = variances > SMALLEST_VARIANCE * variances[-1]
    whitening = (directions[:, varies] / variances[varies].sqrt()).flip(1)  # (d, k), largest variance first

    voters = torch.from_numpy(bags.voting_classes).to(chosen)
    counts = torch.from_numpy(bags.bag_labels.counts).to(label_sums)[voters]
    label_means = label_sums[voters] / counts.unsqueeze(1)
    named_bags = int(bags.bag_labels.named.sum())
    within = (bag_squares - (label_means * counts.unsqueeze(1)).T @ label_means) / (named_bags - len(voters))
    by_chance = ((within @ whitening) * whitening).sum(dim=0) * (1 / counts).mean()  # (k,) variance of a label's mean
    apart = (label_means - label_means.mean(dim=0)) @ whitening  # (C, k)
    observed = apart.square().sum(dim=0) / (len(voters) - 1)
    by_chance, observed = _mean_of_neighbours(by_chance), _mean_of_neighbours(observed)
    apart = apart * torch.where(observed > by_chance, 1 - by_chance / observed, 0)  # 0 if all bags are equal
    size = apart.square().sum(dim=1).mean().sqrt().clamp(min=1e-12)  # outputs have a deviation of about 1
    weights = zeros(classes, width)
    weights[voters] = apart / size @ whitening.T * scale
    return weights.float()


def _mean_of_neighbours(values: Tensor) -> Tensor:
    """Mean over a window that reaches a quarter of the position, at least two positions, to both sides.

    >>> _mean_of_neighbours(torch.tensor([0.0, 0.0, 3.0, 0.0, 0.0, 0.0])).tolist()
    [1.0, 0.75, 0.6000000238418579, 0.6000000238418579, 0.75, 0.0]
    """
    place = torch.arange(len(values), device=values.device)
    reach = (place // 4).clamp(min=2)
    first, after = (place - reach).clamp(min=0), (place + reach + 1).clamp(max=len(values))
    sums = torch.cat([values.new_zeros(1), values.cumsum(0)])
    return (sums[after] - sums[first]) / (after - first)
