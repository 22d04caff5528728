"""Several classifiers as one: their log-probabilities are added with a weight for each and an offset for each class,
which the labels of bags choose.

Every instance casts one random vote by its probabilities, and the class with the most votes is the label. Weights,
offsets and so also the temperature of the sum are the most probable ones given these labels; normal priors keep them
where they are unless many labels ask for more.
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
PRECISION_OF_WEIGHTS, PRECISION_OF_OFFSETS = 1.0, 5.0  # of the normal priors of log-weights and of offsets
DISCOUNT = 0.25  # of the evidence for a member: the instances of a bag are not as independent as votes
SMALLEST_WEIGHT = 0.02  # a member that the labels speak against more than this is left out
LARGEST_CHANGE = 3.0  # of the logarithm of a weight
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


class Pool(NamedTuple):
    weights: list[float]  # of each member
    offsets: list[float]  # of each class; their mean is 0

    def join(self, members: Sequence[Tensor]) -> Tensor:  # of (n, C) -> (n, C)
        logits = torch.tensor(self.offsets, dtype=members[0].dtype)
        for weight, member in zip(self.weights, members, strict=True):
            if weight > 0:
                logits = logits + weight * _at_least(member).log()
        return logits.softmax(dim=1)


def find_pool(members: Sequence[Tensor], labelled: LabelledRows, wrong: float = 0.0) -> Pool:
    """The pool of these members (n, C), whose predictions of a bag must not have seen its label.

    Weights start from the evidence for each member alone, so that one that explains the labels much worse than another
    is left out: together, both may explain them equally well.
    """
    known = torch.stack([_at_least(member[labelled.rows]).log() for member in members])
    alone = [evidence_for(member, labelled, wrong) for member in members] if len(members) > 1 else [0.0]
    prior = (DISCOUNT * torch.tensor(alone)).softmax(dim=0)
    kept = prior > SMALLEST_WEIGHT
    pool, _ = _fit(prior[kept], known[kept], labelled, wrong)
    weights = torch.zeros(len(known), dtype=torch.float64)
    weights[kept] = torch.tensor(pool.weights, dtype=torch.float64)
    return Pool(weights.tolist(), pool.offsets)


def evidence_for(member: Tensor, labelled: LabelledRows, wrong: float = 0.0) -> float:
    """The evidence of all labels for a member (n, C) alone, with its best temperature and offsets, less what their
    priors cost."""
    known = _at_least(member[labelled.rows]).log().unsqueeze(0)
    return -_fit(torch.ones(1), known, labelled, wrong)[1]


def _fit(prior: Tensor, log_probs: Tensor, labelled: LabelledRows, wrong: float) -> tuple[Pool, float]:
    """The most probable pool of members (m, n, C), and the negative logarithm of its posterior."""
    changes = torch.zeros(len(log_probs), requires_grad=True)
    raw_offsets = torch.zeros(log_probs.shape[2], requires_grad=True)
    optimizer = LBFGS([changes, raw_offsets], max_iter=ITERATIONS, line_search_fn="strong_wolfe")

    def pool() -> tuple[Tensor, Tensor]:
        return prior * (LARGEST_CHANGE * (changes / LARGEST_CHANGE).tanh()).exp(), raw_offsets - raw_offsets.mean()

    def negative_log_posterior() -> Tensor:
        optimizer.zero_grad()
        weights, offsets = pool()
        probabilities = (torch.tensordot(weights, log_probs, dims=1) + offsets).softmax(dim=1)
        priors = PRECISION_OF_WEIGHTS * changes.square().sum() + PRECISION_OF_OFFSETS * offsets.square().sum()
        loss = priors / 2 - evidence(probabilities, labelled, wrong)
        loss.backward()
        return loss

    optimizer.step(negative_log_posterior)
    loss = float(negative_log_posterior().detach())
    weights, offsets = pool()
    found = Pool(weights.tolist(), offsets.tolist())
    if not np.isfinite([*found.weights, *found.offsets, loss]).all():
        return Pool(prior.tolist(), [0.0] * len(raw_offsets)), np.inf
    return found, loss


def _at_least(probabilities: Tensor) -> Tensor:
    """Rows that sum to 1, without probabilities near 0."""
    raised = probabilities.detach().clamp(min=SMALLEST_PROBABILITY)
    return raised / raised.sum(dim=1, keepdim=True)
