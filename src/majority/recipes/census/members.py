"""Members of a pool for vectors: linear models and a forest. Each is trained on some bags and predicts others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ...data.segments import Segments
from ...training.optimizers import LBFGS
from .pooling import LEAST_WRONG, LabelledRows, Pool, find_pool, label_scores, log_likelihoods

FOLDS = 3
RIDGES = (1e-1, 1e-2, 1e-3)  # the strongest first: each starts from the one before
SOFT_COUNT_TEMPERATURE = 0.1
ITERATIONS = 40
TREES = 30  # of the forest of each fold
LEAF, MOST_LEAVES = 3, 2_000  # instances in a leaf, at least; leaves of a tree, about
STRENGTHS = (0.0, 0.5, 1.0)  # of the correction of a forest, which are tried
SIGNALS = (0.05, 0.1, 0.3)

Predict = Callable[[Tensor], Tensor]  # (n, d) -> (n, C)


class Known(NamedTuple):
    """What a member is trained on."""

    instances: Tensor  # (n, d), standardised
    segments: Segments
    labels: Tensor  # (b,)
    classes: int

    @property
    def label_shares(self) -> Tensor:  # (C,)
        counts = torch.bincount(self.labels, minlength=self.classes) + 0.5
        return counts / counts.sum()


def folds_of(labels: np.ndarray) -> np.ndarray:
    """A fold for each bag, such that bags with the same label are spread over all folds.

    >>> folds_of(np.array([0, 1, 0, 0, 1])).tolist()
    [0, 0, 1, 2, 1]
    """
    folds = np.empty(len(labels), int)
    folds[np.argsort(labels, kind="stable")] = np.arange(len(labels)) % FOLDS
    return folds


# ---------------------------------------------------------------------- linear models


def fit_linear(known: Known, loss: str, ridges: Sequence[float] = RIDGES) -> list[Tensor]:
    """Weights (d + 1, C) of softmax regression, the last row of which is added, for each of these ridges.

    All bags at once: the loss is smooth, and few bags leave little to be learned from random steps.
    """
    weights = torch.zeros(known.instances.shape[1] + 1, known.classes, requires_grad=True)
    found: list[Tensor] = []
    for ridge in ridges:
        optimizer = LBFGS([weights], max_iter=ITERATIONS, line_search_fn="strong_wolfe")

        def mean_loss(ridge: float = ridge, optimizer: Any = optimizer) -> Tensor:
            optimizer.zero_grad()
            probabilities = predict_linear(weights, known.instances)
            total = _bag_loss(loss, probabilities, known) + ridge * weights[:-1].square().sum()
            total.backward()
            return total

        optimizer.step(mean_loss)
        if not weights.isfinite().all():
            with torch.no_grad():
                weights.copy_(found[-1] if found else torch.zeros_like(weights))
        found.append(weights.detach().clone())
    return found


def _bag_loss(loss: str, probabilities: Tensor, known: Known) -> Tensor:
    if loss == "vote":
        return -label_scores(probabilities, known.segments, known.labels).mean()
    shares = known.segments.mean(known.segments.weigh(probabilities))
    return cross_entropy(shares / SOFT_COUNT_TEMPERATURE, known.labels)


def predict_linear(weights: Tensor, instances: Tensor) -> Tensor:  # (d + 1, C), (n, d) -> (n, C)
    return (instances @ weights[:-1] + weights[-1]).softmax(dim=1)


def linear_members(known: Known) -> list[Predict]:
    models = [weights for loss in ("vote", "soft-count") for weights in fit_linear(known, loss)]
    return [partial(predict_linear, weights) for weights in models]


# ---------------------------------------------------------------------- a forest


def grow_forest(known: Known, seed: int) -> Any:
    """A forest of scikit-learn that learns, for every instance, the label of its bag."""
    from sklearn.ensemble import ExtraTreesClassifier

    leaf = max(LEAF, len(known.instances) // MOST_LEAVES)
    forest = ExtraTreesClassifier(TREES, min_samples_leaf=leaf, random_state=seed % 2**32)
    weights = known.segments.scaled_weights
    labels = known.segments.spread(known.labels).numpy()
    return forest.fit(known.instances.numpy(), labels, None if weights is None else weights.numpy())


def label_probabilities(forest: Any, classes: int, instances: Tensor) -> Tensor:  # (n, d) -> (n, C)
    scores = torch.zeros(len(instances), classes)
    scores[:, torch.from_numpy(forest.classes_)] = torch.from_numpy(forest.predict_proba(instances.numpy())).float()
    return scores


def correct_scores(scores: Tensor, label_shares: Tensor, strength: float, signal: float) -> Tensor:
    """(n, C) probabilities of the label of an instance's bag -> (n, C) probabilities of its own class.

    An instance of a bag with label y is of class y with probability `signal`, or else drawn from a background. With
    shares f of the labels and g of the classes, the score of label y is f_y ((1 - signal) K + signal p_y / g_y), where
    K is the same for all labels. Solved for p: p_y = g_y (1 + (s_y / f_y - sum of g s / f) / signal). The classes are
    equally common at strength 1, and as common as the labels at strength 0: g is f to the power 1 - strength.

    >>> scores, shares = torch.tensor([[0.8, 0.2], [0.7, 0.3]]), torch.tensor([0.75, 0.25])
    >>> [correct_scores(scores, shares, strength, 1.0).argmax(dim=1).tolist() for strength in (0.0, 1.0)]
    [[0, 0], [0, 1]]
    """
    classes = label_shares ** (1 - strength)
    classes = classes / classes.sum()
    ratios = scores / label_shares
    found = classes * (1 + (ratios - (ratios * classes).sum(dim=1, keepdim=True)) / signal).clamp(min=1e-3)
    return found / found.sum(dim=1, keepdim=True)


class Correction(NamedTuple):
    strength: float
    signal: float
    pool: Pool  # its temperature and offsets

    def apply(self, scores: Tensor, label_shares: Tensor) -> Tensor:
        return self.pool.join([correct_scores(scores, label_shares, self.strength, self.signal)])


def find_correction(scores: Tensor, labelled: LabelledRows, label_shares: Tensor, wrong: float = 0.0) -> Correction:
    """The correction of scores (n, C) of bags that the forest has not seen, by which they explain the labels best."""
    best, highest = None, -np.inf
    for strength in STRENGTHS:
        for signal in SIGNALS:
            corrected = correct_scores(scores, label_shares, strength, signal)
            pool = find_pool([corrected], labelled, wrong)
            explained = log_likelihoods(pool.join([corrected[labelled.rows]]), labelled, max(wrong, LEAST_WRONG))
            if (likelihood := float(explained.sum())) > highest:
                best, highest = Correction(strength, signal, pool), likelihood
    return best or Correction(0.0, 1.0, Pool([1.0], [0.0] * scores.shape[1]))
