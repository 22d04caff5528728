"""Several classifiers as one: the mean of their log-probabilities, with weights that the labels of bags choose.

Every instance casts one random vote by its probabilities, and the class with the most votes is the label. The better
the votes of a member explain the labels of bags that it has not seen, the more weight it has. Weights sum to one: a
temperature that fits the labels as well would make the mean far too sure where the instances of a bag are alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...data.segments import Segments
from ...losses.functional import log_ndtr, pick
from ...training.optimizers import LBFGS

LEAST_WRONG = 0.1  # share of the labels that is assumed to be wrong, so that a few of them do not decide
LEAST_VARIANCE = 0.25  # of a lead in votes: without it, votes of sure instances have infinite gradients
PRECISION_OF_SCALE, PRECISION_OF_OFFSETS = 1.0, 5.0  # of the normal priors of a log-scale and of offsets
SMALLEST_WEIGHT = 0.02  # a member that the labels speak against more than this is left out
LARGEST_CHANGE = 3.0  # of the logarithm of a scale
SMALLEST_PROBABILITY = 1e-4
ITERATIONS = 40


class LabelledRows(NamedTuple):
    """The instances of some bags, each of which has a label that names one class."""

    rows: Tensor  # (n,) their positions among all instances
    segments: Segments
    labels: Tensor  # (b,)


def label_scores(probabilities: Tensor, segments: Segments, labels: Tensor) -> Tensor:  # (n, C), (b,) -> (b,)
    """The log-probability that the label has more votes than each rival: `vote_scores` of the labels alone.

    >>> probs = torch.tensor([[0.8, 0.1, 0.1], [0.8, 0.1, 0.1], [0.1, 0.8, 0.1]])
    >>> [round(label_scores(probs, Segments([3]), torch.tensor([label])).item(), 2) for label in range(3)]
    [-0.45, -1.55, -3.63]
    """
    of_label = pick(probabilities, segments.spread(labels)).unsqueeze(1)
    counts = segments.sum(segments.weigh(probabilities))
    spreads = probabilities * (1 - probabilities) + 2 * probabilities * of_label
    variances = segments.sum(segments.weigh(segments.weigh(spreads)))  # of each count, with its covariance
    of_own = segments.sum(segments.weigh(segments.weigh(of_label * (1 - of_label))))
    column = labels.unsqueeze(1)
    leads = counts.gather(1, column) - counts
    wins = log_ndtr(leads / (variances + of_own + LEAST_VARIANCE).sqrt())
    return wins.scatter(1, column, 0.0).sum(dim=1)


def log_likelihoods(probabilities: Tensor, labelled: LabelledRows, wrong: float) -> Tensor:  # (n, C) -> (b,)
    """Of the labels, a share of which is assumed to be wrong."""
    right = label_scores(probabilities, labelled.segments, labelled.labels).exp()
    return ((1 - wrong) * right + wrong / probabilities.shape[1]).log()


def evidence(probabilities: Tensor, labelled: LabelledRows, wrong: float) -> Tensor:  # (n, C) -> ()
    """The log-likelihood of all labels, in which the bags of a class count by the square root of their number: else a
    class that is the label of most bags decides alone, and rare ones are given up for it."""
    worth = torch.bincount(labelled.labels).float()[labelled.labels].rsqrt()
    return (log_likelihoods(probabilities, labelled, max(wrong, LEAST_WRONG)) * worth / worth.mean()).sum()


def add_labels(probabilities: Tensor, labelled: LabelledRows, wrong: float = 0.0) -> Tensor:  # (n, C) -> (n, C)
    """The probabilities of the instances of labelled bags, given these labels, too; others stay as they are.

    By Bayes' rule, the logarithm of each probability grows by how much the label becomes more likely if the instance is
    of that class: to the first order, by the gradient of its log-likelihood.

    >>> labelled = LabelledRows(torch.arange(3), Segments([3]), torch.tensor([0]))
    >>> add_labels(torch.tensor([[0.6, 0.4], [0.4, 0.6], [0.4, 0.6]]), labelled)[:, 0]
    tensor([0.7811, 0.6186, 0.6186])
    """
    known = _at_least(probabilities[labelled.rows]).requires_grad_()
    log_likelihoods(known, labelled, max(wrong, LEAST_WRONG)).sum().backward()
    assert known.grad is not None
    found = probabilities.clone()
    found[labelled.rows] = (known.detach().log() + known.grad).softmax(dim=1)
    return found


def weights_by(evidence_of_each: Sequence[float], discount: float) -> list[float]:
    """
    >>> [round(weight, 2) for weight in weights_by([-20.0, -30.0, -90.0], discount=0.1)]
    [0.73, 0.27, 0.0]
    """
    weights = (discount * torch.tensor(evidence_of_each, dtype=torch.float64)).softmax(dim=0)
    weights[weights < SMALLEST_WEIGHT] = 0
    found: list[float] = (weights / weights.sum()).tolist()
    return found


def evidence_as_it_is(probabilities: Tensor, labelled: LabelledRows, wrong: float) -> float:
    return evidence(_at_least(probabilities[labelled.rows]), labelled, wrong).item()


def join(weights: Sequence[float], members: Sequence[Tensor]) -> Tensor:  # of (n, C) -> (n, C)
    """
    >>> join([0.5, 0.5], [torch.tensor([[0.8, 0.2]]), torch.tensor([[0.2, 0.8]])])
    tensor([[0.5000, 0.5000]])
    """
    log_probs = torch.stack([_at_least(member).log() for member in members])
    return torch.tensordot(torch.tensor(weights).to(log_probs), log_probs, dims=1).softmax(dim=1)


class Rescaling(NamedTuple):
    """Log-probabilities times `scale`, plus an offset of each class; the mean of the offsets is 0."""

    scale: float
    offsets: list[float]

    def apply(self, probabilities: Tensor) -> Tensor:  # (n, C) -> (n, C)
        return (self.scale * _at_least(probabilities).log() + torch.tensor(self.offsets)).softmax(dim=1)


def rescale(probabilities: Tensor, labelled: LabelledRows, wrong: float = 0.0) -> tuple[Rescaling, float]:
    """The most probable rescaling of (n, C), with normal priors that keep it at 1 and 0 unless many labels ask for
    more, and the evidence of all labels for the result, less what the priors cost."""
    log_probs = _at_least(probabilities[labelled.rows]).log()
    change = torch.zeros((), requires_grad=True)
    raw_offsets = torch.zeros(log_probs.shape[1], requires_grad=True)
    optimizer = LBFGS([change, raw_offsets], max_iter=ITERATIONS, line_search_fn="strong_wolfe")

    def parts() -> tuple[Tensor, Tensor]:
        return (LARGEST_CHANGE * (change / LARGEST_CHANGE).tanh()).exp(), raw_offsets - raw_offsets.mean()

    def negative_log_posterior() -> Tensor:
        optimizer.zero_grad()
        scale, offsets = parts()
        priors = PRECISION_OF_SCALE * change.square() + PRECISION_OF_OFFSETS * offsets.square().sum()
        loss = priors / 2 - evidence((scale * log_probs + offsets).softmax(dim=1), labelled, wrong)
        loss.backward()
        return loss

    optimizer.step(negative_log_posterior)
    found = -float(negative_log_posterior().detach())
    scale, offsets = parts()
    rescaling = Rescaling(scale.item(), offsets.tolist())
    if not np.isfinite([found, rescaling.scale, *rescaling.offsets]).all():
        return Rescaling(1.0, [0.0] * len(raw_offsets)), -np.inf
    return rescaling, found


def _at_least(probabilities: Tensor) -> Tensor:
    """Rows that sum to 1, without probabilities near 0."""
    raised = probabilities.detach().clamp(min=SMALLEST_PROBABILITY)
    return raised / raised.sum(dim=1, keepdim=True)
