"""How much the teachers of several bag losses count: by how well their instance predictions explain validation labels,
and by how evenly labels are distributed.

No single loss is right for all bags. `adjusted-mean` predicts too many instances of rare classes if the instances that
winners leave are not shared evenly; `soft-count` and `vote` learn little from bags with a large majority. Losses of
different methods are on different scales, so they cannot be compared. What can be compared is how well the shares of
the classes that a classifier predicts in a bag explain the label of the bag: see `LabelEvidence`.

This does not show everything. If majorities are large, all losses explain all labels, whatever they predict for the
instances outside the majority. So `adjusted-mean` also gets a prior weight. If all classes win about equally often,
they probably share the rest about equally too, as it assumes.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from torch import Tensor
from torch.nn.functional import one_hot

from ..data.bags import Bags
from ..data.loader import Batch
from ..nn.model import Model
from ..predict.label_likelihood import RELATIVE, LabelEvidence, voting_shares
from .features import gather_rows

LOSSES = ("adjusted-mean", "soft-count", "vote")  # all classify an instance by log_softmax of one linear layer
HIGHEST_PRIOR, LOWEST_PRIOR, PRIOR_POWER = 3.0, 0.5, 4  # of adjusted-mean; other losses have the prior 1
DISCOUNT = 0.05  # of the validation labels' evidence: they are few, and have chosen the epochs as well


def predicted_shares(model: Model, bags: Bags, device: str = "auto", hard: bool = False) -> np.ndarray:  # (b, C)
    """The (weighted) mean probability of each class over the instances of each bag; `hard`: the (weighted) share of the
    instances that are predicted as it."""

    def shares(batch: Batch, features: Tensor) -> Tensor:
        votes = model.aggregate(features, batch.segments).instance_log_probs.exp()
        if hard:
            votes = one_hot(votes.argmax(dim=1), votes.shape[1]).float()
        return batch.segments.mean(batch.segments.weigh(votes))

    return gather_rows(model, bags, device, shares).double().cpu().numpy()


def label_log_likelihood(model: Model, train: Bags, val: Bags, device: str = "auto") -> float:
    """The mean log-likelihood of the labels of the validation bags, given what the model predicts for instances."""
    val = val.with_labels()
    shares, labels = voting_shares(predicted_shares(model, val, device), val)
    return LabelEvidence(shares, labels, label_counts(train)).mean_log_likelihoods([0.0], [RELATIVE])[0]


def label_counts(bags: Bags) -> np.ndarray:  # (C,)
    """How many bags have each label, without the background class and without labels that name several classes."""
    return bags.bag_labels.counts[bags.voting_classes]


def evenness(counts: np.ndarray) -> float:
    """How evenly labels are distributed: the exponential of their entropy, as a share of the number of classes.

    >>> [round(evenness(np.array(counts)), 2) for counts in ([5, 5, 5, 5], [9, 9, 1, 1], [20, 0, 0, 0])]
    [1.0, 0.69, 0.25]
    """
    shares = counts[counts > 0] / counts.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()) / len(counts))


def prior_of_adjusted_mean(counts: np.ndarray) -> float:
    """Its prior weight, from the number of training bags with each label. With few bags, labels look less even than
    they are, and the prior is lower.

    >>> [round(prior_of_adjusted_mean(np.array(counts)), 2) for counts in ([5, 5, 5, 5], [9, 9, 1, 1], [20, 0, 0, 0])]
    [3.0, 0.69, 0.5]
    """
    return max(HIGHEST_PRIOR * evenness(counts) ** PRIOR_POWER, LOWEST_PRIOR)


def loss_weights(
    log_likelihoods: Mapping[str, float], methods: Mapping[str, str], bags: int, counts: np.ndarray
) -> dict[str, float]:
    """Weights that sum to 1, from the mean log-likelihoods over so many validation bags, the method of each classifier,
    and the number of training bags with each label.

    They are proportional to the likelihood to the power DISCOUNT: as few bags say little, classifiers that are
    nearly as good get nearly the same weight. They are also proportional to the prior weight of the method.

    >>> methods = {"a": "vote", "b": "soft-count", "c": "adjusted-mean"}
    >>> for counts in ([50, 50], [99, 1]):
    ...     weights = loss_weights({"a": -0.5, "b": -0.6, "c": -0.5}, methods, 50, np.array(counts))
    ...     print({name: round(weight, 3) for name, weight in weights.items()})
    {'a': 0.209, 'b': 0.163, 'c': 0.628}
    {'a': 0.439, 'b': 0.342, 'c': 0.219}
    """
    evidence = DISCOUNT * bags * np.array([*log_likelihoods.values()])
    priors = {"adjusted-mean": prior_of_adjusted_mean(counts)}
    prior = np.array([priors.get(methods[name], 1.0) for name in log_likelihoods])
    weights = prior * np.exp(evidence - evidence.max())
    return dict(zip(log_likelihoods, (weights / weights.sum()).tolist(), strict=True))
