"""One number per class that makes soft labels agree with the labels of the bags.

A teacher may predict some class too often and another too rarely: a bag loss that assumes too many instances of rare
classes, or few bags of a class, have this effect. Counting shows it, because the class with the largest share should be
the label. So a number is added to the log-probability of each class, such that the shares explain the labels of the
training bags best: P(label = y) is proportional to exp(s share_y), with one s for all bags. These are few numbers, and
a normal prior keeps them near 0 unless many labels ask for more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from ...data.bags import Bags
from ...data.segments import Segments
from ...methods.functional import tolerant_losses

PRECISION = 10.0  # of the normal prior of an offset: with it, a deviation of 0.3 is usual
FIRST_SHARPNESS, LARGEST_SHARPNESS = 10.0, 100.0
ITERATIONS = 60
MOST_PROBABILITIES = 4_000_000  # from which offsets are found; of more, those of evenly spaced bags
SMALLEST_PROBABILITY = 1e-8
SHOWN = 5  # classes in a message


def with_offsets(probabilities: Tensor, offsets: Tensor) -> Tensor:  # (n, C), (C,) -> (n, C)
    """The probabilities after the offsets are added to their logarithms.

    >>> with_offsets(torch.tensor([[0.5, 0.5], [0.2, 0.8]]), torch.tensor([4.0, 1.0]).log())
    tensor([[0.8000, 0.2000],
            [0.5000, 0.5000]])
    """
    log_probs = probabilities.clamp(min=SMALLEST_PROBABILITY).log()
    return (log_probs + offsets.to(probabilities)).softmax(dim=1)


def find_offsets(probabilities: Tensor, bags: Bags, wrong: float = 0.0) -> Tensor:  # (n, C) -> (C,) float64
    """The offsets for these probabilities of the instances of the bags, of which some have a label. Their mean is 0; a
    background has none. The share `wrong` of the labels is assumed to be wrong."""
    numbers = _some_labelled(bags, probabilities.shape[1])
    part, rows = bags.subset(numbers), torch.from_numpy(bags.positions(numbers))
    log_probs = probabilities[rows.to(probabilities.device)].cpu().double().clamp(min=SMALLEST_PROBABILITY).log()
    weights = None if part.weights is None else torch.from_numpy(part.weights).double()
    segments = Segments(part.sizes, weights=weights)
    votes = torch.arange(len(bags.classes)) != (-1 if bags.background is None else bags.background)  # (C,)
    allowed = torch.from_numpy(part.bag_labels.allowed_classes(len(bags.classes)))[:, votes]  # (b, voting classes)
    free = torch.zeros(len(votes), dtype=torch.float64, requires_grad=True)
    log_sharpness = torch.tensor(math.log(FIRST_SHARPNESS), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([free, log_sharpness], max_iter=ITERATIONS, line_search_fn="strong_wolfe")

    def offsets() -> Tensor:
        return torch.where(votes, free - free[votes].mean(), 0.0)

    def negative_log_posterior() -> Tensor:
        optimizer.zero_grad()
        shares = segments.mean(segments.weigh((log_probs + offsets()).softmax(dim=1)))[:, votes]
        of_classes = (log_sharpness.exp().clamp(max=LARGEST_SHARPNESS) * shares).log_softmax(dim=1)
        of_labels = of_classes.masked_fill(~allowed, -torch.inf).logsumexp(dim=1)
        losses = tolerant_losses(of_labels, wrong, int(votes.sum())) if wrong else -of_labels
        loss = losses.sum() + PRECISION / 2 * offsets().square().sum()
        loss.backward()
        return loss.detach()

    optimizer.step(negative_log_posterior)
    return offsets().detach()


def _some_labelled(bags: Bags, n_classes: int) -> np.ndarray:
    """The numbers of the bags with a label; of very many instances, evenly spaced ones."""
    labelled = np.flatnonzero(bags.bag_labels.known)
    step = math.ceil(bags.sizes[labelled].sum() * n_classes / MOST_PROBABILITIES)
    return labelled[::step]


def describe_offsets(offsets: Mapping[str, float]) -> str:
    """The largest ones.

    >>> describe_offsets({"oak": 0.04, "pine": -0.31, "fir": 0.27})
    'pine -0.31, fir +0.27, oak +0.04'
    """
    largest = sorted(offsets, key=lambda name: -abs(offsets[name]))[:SHOWN]
    more = f", ... ({len(offsets)} classes)" if len(offsets) > SHOWN else ""
    return ", ".join(f"{name} {offsets[name]:+.2f}" for name in largest) + more
