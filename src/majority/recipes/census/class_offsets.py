"""One number per class, added to log-probabilities, that makes soft labels agree with the labels of the bags.

Teachers may predict some classes too often, above all where some classes rarely win. The bag labels show it: in each
bag, the label should be the class with the most instances. The offsets are the most probable ones if every instance
casts one random vote by its probabilities, as in the method `vote`, and the class with the most votes is the label. A
normal prior keeps them near 0 unless many labels ask for more.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from ...data.bags import Bags
from ...data.segments import Segments
from ...losses.functional import vote_scores
from ...predict.label_likelihood import wrong_rates
from ...training.optimizers import LBFGS

PRECISION = 5.0  # of the normal prior of an offset: a standard deviation of 0.45
LEAST_WRONG = 0.1  # share of the labels that is assumed to be wrong, so that a few of them do not decide
ITERATIONS = 60
MOST_INSTANCES = 256  # of a bag; of more, a random part votes
MOST_NUMBERS = 4_000_000  # in the arrays (instances, classes) and (bags, classes, classes); they limit the bags
SMALLEST_PROBABILITY = 1e-8
MOST_SHOWN = 5  # classes in a message


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
    background has none. The share `wrong` of the labels, at least LEAST_WRONG, is assumed to be wrong. With fewer
    labelled bags than classes, or too many classes for MOST_NUMBERS, all are 0."""
    votes = torch.zeros(len(bags.classes), dtype=torch.bool)  # (C,)
    votes[bags.voting_classes] = True
    parameters = torch.zeros(len(votes), dtype=torch.float64, requires_grad=True)
    numbers, rows, sizes = _sample(bags, np.random.default_rng(0))
    if len(numbers) < len(votes):
        return parameters.detach()
    labels = bags.bag_labels.take(numbers)
    labels = labels if bags.background is None else labels.without_classes([bags.background])
    rates, by_chance = map(
        torch.from_numpy, wrong_rates(labels, max(wrong, LEAST_WRONG), int(votes.sum()))
    )  # (b,), (b,)
    allowed = torch.from_numpy(labels.allowed)  # (b, voting classes)
    chosen = probabilities[torch.from_numpy(rows).to(probabilities.device)].cpu().double()
    log_probs = chosen.clamp(min=SMALLEST_PROBABILITY).log()
    weights = None if bags.weights is None else torch.from_numpy(bags.weights[rows]).double()
    groups, start = [], 0  # bags of equal size: sums over these are fast
    for size, count in zip(*np.unique(sizes, return_counts=True), strict=True):
        part = slice(start, start + size * count)
        groups.append((part, Segments(np.full(count, size), weights=None if weights is None else weights[part])))
        start = part.stop
    optimizer = LBFGS([parameters], max_iter=ITERATIONS, line_search_fn="strong_wolfe")

    def offsets() -> Tensor:
        return torch.where(votes, parameters - parameters[votes].mean(), 0.0)

    def negative_log_posterior() -> Tensor:
        optimizer.zero_grad()
        shifted = (log_probs + offsets()).log_softmax(dim=1)[:, votes]
        scores = torch.cat([vote_scores(shifted[part], segments) for part, segments in groups])
        of_labels = scores.log_softmax(dim=1).masked_fill(~allowed, -torch.inf).logsumexp(dim=1)
        likelihoods = (1 - rates - by_chance) * of_labels.exp() + by_chance
        loss = PRECISION / 2 * offsets().square().sum() - likelihoods.log().sum()
        loss.backward()
        return loss.detach()

    optimizer.step(negative_log_posterior)
    found = offsets().detach()
    return found if found.isfinite().all() else torch.zeros_like(found)


def _sample(bags: Bags, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The numbers of bags with a label, the smallest bags first, positions of their instances, and how many each bag
    has. Of very many bags or instances, random ones."""
    numbers, classes = np.flatnonzero(bags.bag_labels.known), len(bags.classes)
    if len(numbers) == 0:
        return numbers, numbers, numbers
    sizes = np.minimum(bags.sizes, MOST_INSTANCES)
    most = MOST_NUMBERS // max(int(sizes[numbers].mean()) * classes, classes * classes)
    if len(numbers) > most:
        numbers = np.sort(rng.choice(numbers, most, replace=False))
    numbers = numbers[np.argsort(sizes[numbers], kind="stable")]
    rows = [
        bags.offsets[bag] + np.sort(rng.choice(size, min(size, MOST_INSTANCES), replace=False))
        for bag, size in zip(numbers.tolist(), bags.sizes[numbers].tolist(), strict=True)
    ]
    return numbers, np.concatenate(rows), sizes[numbers]


def describe_offsets(offsets: Mapping[str, float]) -> str:
    """The largest ones.

    >>> describe_offsets({"oak": 0.04, "pine": -0.31, "fir": 0.27})
    'pine -0.31, fir +0.27, oak +0.04'
    """
    largest = sorted(offsets, key=lambda name: -abs(offsets[name]))[:MOST_SHOWN]
    return ", ".join(f"{name} {offsets[name]:+.2f}" for name in largest)
