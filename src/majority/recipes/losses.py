"""How much the teachers of several bag losses count: by how well their instance predictions explain validation labels.

No single loss is right for all bags. `adjusted-mean` predicts too many instances of rare classes if the instances that
winners leave are not shared evenly; `soft-count` and `vote` learn little from bags with a large majority. Losses of
different methods are on different scales, so they cannot be compared. What can be compared is how well the shares of
the classes that a classifier predicts in a bag explain the label of the bag: see `label_log_probs`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from ..data.bags import Bags
from ..data.device import choose_device
from ..inference.evaluate import all_batches, outputs
from ..inference.label_likelihood import label_log_probs, voting_shares
from ..model import Model
from ..training.distributed import gather_pass

LOSSES = ("adjusted-mean", "soft-count", "vote")  # all classify an instance by log_softmax of one linear layer
PRIOR = {"adjusted-mean": 0.5}  # of the weights, others 1: it assumes more, and bag labels cannot show all of it
DISCOUNT = 0.15  # of the validation labels' evidence: they are few, and have chosen the epochs as well


def predicted_shares(model: Model, bags: Bags, device: str = "auto", hard: bool = False) -> np.ndarray:  # (b, C)
    """The (weighted) mean probability of each class over the instances of each bag; `hard`: the (weighted) share of the
    instances that are predicted as it."""
    chosen = choose_device(device)

    def shares_of(part: Bags) -> Tensor:
        shares = []
        for batch, output in outputs(model.to(chosen), all_batches(part.without_instance_labels(), chosen)):
            votes = output.instance_log_probs.exp()
            if hard:
                votes = one_hot(votes.argmax(dim=1), votes.shape[1]).float()
            shares.append(batch.segments.mean(batch.segments.weigh(votes)))
        return torch.cat(shares)

    return gather_pass(bags, shares_of).double().cpu().numpy()


def label_log_likelihood(model: Model, train: Bags, val: Bags, device: str = "auto") -> float:
    """The mean log-likelihood of the labels of the validation bags, given what the model predicts for instances."""
    shares, labels = voting_shares(predicted_shares(model, val, device), val)
    _, train_labels = voting_shares(np.empty((0, len(train.classes))), train)
    counts = train_labels.counts(shares.shape[1])
    return float(label_log_probs(shares, labels, counts)[1].mean())


def loss_weights(log_likelihoods: Mapping[str, float], methods: Mapping[str, str], bags: int) -> dict[str, float]:
    """Weights that sum to 1, from the mean log-likelihoods over so many bags and the method of each classifier.

    They are proportional to the likelihood to the power DISCOUNT: as few bags say little, classifiers that are
    nearly as good get nearly the same weight. That of `adjusted-mean` is halved.

    >>> methods = {"a": "vote", "b": "soft-count", "c": "adjusted-mean"}
    >>> weights = loss_weights({"a": -0.5, "b": -0.6, "c": -0.5}, methods, bags=50)
    >>> {name: round(weight, 3) for name, weight in weights.items()}
    {'a': 0.507, 'b': 0.239, 'c': 0.254}
    """
    evidence = DISCOUNT * bags * np.array([*log_likelihoods.values()])
    prior = np.array([PRIOR.get(methods[name], 1.0) for name in log_likelihoods])
    weights = prior * np.exp(evidence - evidence.max())
    return dict(zip(log_likelihoods, (weights / weights.sum()).tolist(), strict=True))
