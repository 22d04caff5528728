"""Members of a pool for vectors: linear models and a forest. Each is trained on some bags and predicts others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ...data.bags import Bags
from ...data.segments import Segments
from ...nn.model import Normalise
from ...training.optimizers import LBFGS
from .pooling import LabelledRows, Pool, evidence, find_pool, label_scores

FOLDS = 3
MOST_NUMBERS = 40_000_000  # in the instances that members see; of more, the instances of random bags
MOST_INSTANCES = 60_000
LOSSES = ("vote", "soft-count")  # of linear models
RIDGES = (1e-1, 1e-2, 1e-3)  # the strongest first: each starts from the one before
SOFT_COUNT_TEMPERATURE = 0.1
ITERATIONS = 40
TREES = 30  # of the forest of each fold
LEAF, MOST_LEAVES = 3, 2_000  # instances in a leaf, at least; leaves of a tree, about
STRENGTHS = (0.0, 0.5, 1.0)  # of the correction of a forest, which are tried
SIGNALS = (0.05, 0.1, 0.3)
LOWEST = 1e-3  # corrected score, as a share of that of a class at random

Predict = Callable[[Tensor], Tensor]  # (n, d) -> (n, C)


# ---------------------------------------------------------------------- bags as rows in memory


class Table:
    """The instances that are learned from, and after these the instances of validation bags, which only judge."""

    def __init__(self, bags: Bags, judges: Sequence[Bags], normalise: Normalise, seed: int):
        parts = [sample(part, seed) for part in (bags, *judges)]
        self.bags = parts[0]  # that are learned from
        self.instances = torch.cat([normalise(torch.from_numpy(np.asarray(part.instances()))) for part in parts])
        self.sizes = np.concatenate([part.sizes for part in parts])
        self.labels = np.concatenate([part.labels for part in parts])  # -1: none that names one class
        self.folds = np.full(len(self.labels), -1)  # in which no member is trained on the bag; -1: in all
        numbers = np.flatnonzero(self.bags.labels >= 0)
        self.folds[numbers] = folds_of(self.bags.labels[numbers])
        weights = [np.ones(len(part.index)) if part.weights is None else part.weights for part in parts]
        self.weights = None if bags.weights is None else torch.from_numpy(np.concatenate(weights)).float()
        spreads = normalise.std * (self.instances != self.instances[0]).any(dim=0)  # a constant column has none
        self.scales = spreads / spreads.square().mean().sqrt().clamp(min=1e-30)  # (d,) their quadratic mean is 1

    def rows(self, which: np.ndarray) -> Tensor:  # (b,) -> positions of their instances
        return torch.from_numpy(np.flatnonzero(np.repeat(which, self.sizes)))

    def labelled(self, which: np.ndarray) -> LabelledRows:
        which = which & (self.labels >= 0)
        rows = self.rows(which)
        weights = None if self.weights is None else self.weights[rows]
        return LabelledRows(rows, Segments(self.sizes[which], weights=weights), torch.from_numpy(self.labels[which]))

    @property
    def everything(self) -> LabelledRows:
        return self.labelled(np.ones(len(self.sizes), bool))

    @property
    def training(self) -> list[LabelledRows]:
        """What the members of each fold are trained on: the bags of the other folds."""
        return [self.labelled((self.folds >= 0) & (self.folds != fold)) for fold in range(FOLDS)]

    def cross_fit(self, models: Sequence[Predict]) -> Tensor:  # (n, C)
        """Predictions by a member with a model of each fold: of a bag by the model of its fold, of a bag that none was
        trained on by the mean of all."""
        predicted = torch.zeros(len(self.instances), len(self.bags.classes))
        if len(others := self.rows(self.folds < 0)):
            predicted[others] = torch.stack([model(self.instances[others]) for model in models]).mean(dim=0)
        for fold, model in enumerate(models):
            if len(rows := self.rows(self.folds == fold)):
                predicted[rows] = model(self.instances[rows])
        return predicted


def sample(bags: Bags, seed: int) -> Bags:
    most = min(MOST_INSTANCES, MOST_NUMBERS // bags.store.shape[1])
    if len(bags.index) <= most:
        return bags
    order = np.random.default_rng(seed).permutation(len(bags))
    number = int(np.searchsorted(bags.sizes[order].cumsum(), most))
    return bags.subset(np.sort(order[: max(number, len(bags.classes))]))


def folds_of(labels: np.ndarray) -> np.ndarray:
    """A fold for each bag, such that bags with the same label are spread over all folds.

    >>> folds_of(np.array([0, 1, 0, 0, 1])).tolist()
    [0, 0, 1, 2, 1]
    """
    folds = np.empty(len(labels), int)
    folds[np.argsort(labels, kind="stable")] = np.arange(len(labels)) % FOLDS
    return folds


# ---------------------------------------------------------------------- linear models


def fit_linear(
    instances: Tensor, known: LabelledRows, classes: int, loss: str, ridges: Sequence[float] = RIDGES
) -> list[Tensor]:
    """Weights (d + 1, C) of softmax regression, the last row of which is added, for each of these ridges.

    All bags at once: the loss is smooth, and few bags leave little to be learned from random steps.
    """
    instances = instances[known.rows]
    weights = torch.zeros(instances.shape[1] + 1, classes, requires_grad=True)
    found: list[Tensor] = []
    for ridge in ridges:
        optimizer = LBFGS([weights], max_iter=ITERATIONS, line_search_fn="strong_wolfe")

        def mean_loss(ridge: float = ridge, optimizer: Any = optimizer) -> Tensor:
            optimizer.zero_grad()
            probabilities = predict_linear(weights, instances)
            if loss == "vote":
                total = -label_scores(probabilities, known.segments, known.labels).mean()
            else:
                shares = known.segments.mean(known.segments.weigh(probabilities))
                total = cross_entropy(shares / SOFT_COUNT_TEMPERATURE, known.labels)
            total = total + ridge * weights[:-1].square().sum()
            total.backward()
            return total

        optimizer.step(mean_loss)
        if not weights.isfinite().all():
            with torch.no_grad():
                weights.copy_(found[-1] if found else torch.zeros_like(weights))
        found.append(weights.detach().clone())
    return found


def predict_linear(weights: Tensor, instances: Tensor) -> Tensor:  # (d + 1, C), (n, d) -> (n, C)
    return (instances @ weights[:-1] + weights[-1]).softmax(dim=1)


def linear_member(table: Table, wrong: float) -> tuple[Tensor, Tensor]:
    """Models of each loss and ridge as one, which is linear, too: its weights (d + 1, C), the last row of which is
    added, and what its parts predict for bags that they have not seen, (n, C)."""
    models, predicted = linear_models(table)
    pool = find_pool(predicted, table.everything, wrong)
    weights = torch.tensordot(torch.tensor(pool.weights).to(models[0]), torch.stack(models), dims=1)
    weights[-1] += torch.tensor(pool.offsets)
    return weights, pool.join(predicted)


def linear_models(table: Table) -> tuple[list[Tensor], list[Tensor]]:
    """For each loss and ridge, the mean weights (d + 1, C) of the models of all folds, and their predictions (n, C): by
    standardised columns, and by columns as they are but for one common scale. There the ridge spares those that vary
    most, such as a position beside the columns of an embedding."""
    classes = len(table.bags.classes)
    found: list[Tensor] = []
    predicted: list[Tensor] = []
    for scales in (torch.ones_like(table.scales), table.scales):
        back = torch.cat([scales, torch.ones(1)]).unsqueeze(1)
        for loss in LOSSES:
            of_folds = [fit_linear(table.instances * scales, known, classes, loss) for known in table.training]
            for models in zip(*of_folds, strict=True):
                of_columns = [weights * back for weights in models]
                found.append(torch.stack(of_columns).mean(dim=0))
                predicted.append(table.cross_fit([partial(predict_linear, weights) for weights in of_columns]))
    return found, predicted


# ---------------------------------------------------------------------- a forest


def grow_forest(instances: Tensor, known: LabelledRows, seed: int) -> Any:
    """A forest of scikit-learn that learns, for every instance, the label of its bag."""
    from sklearn.ensemble import ExtraTreesClassifier

    leaf = max(LEAF, len(known.rows) // MOST_LEAVES)
    forest = ExtraTreesClassifier(TREES, min_samples_leaf=leaf, random_state=seed % 2**32)
    weights = known.segments.scaled_weights
    labels = known.segments.spread(known.labels).numpy()
    return forest.fit(instances[known.rows].numpy(), labels, None if weights is None else weights.numpy())


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
    classes = class_shares(label_shares, strength)
    ratios = scores / label_shares
    found = classes * (1 + (ratios - (ratios * classes).sum(dim=1, keepdim=True)) / signal).clamp(min=LOWEST)
    return found / found.sum(dim=1, keepdim=True)


def class_shares(label_shares: Tensor, strength: float) -> Tensor:  # (C,)
    shares = label_shares ** (1 - strength)
    return shares / shares.sum()


class Correction(NamedTuple):
    """The correction of scores by which they explain the labels best."""

    label_shares: Tensor  # (C,)
    strength: float
    signal: float
    pool: Pool  # its temperature and offsets


def forest_member(table: Table, seed: int, wrong: float) -> tuple[list[Any], Correction, Tensor]:
    """The forest of each fold, the correction of their scores by bags that they have not seen, and the corrected
    scores (n, C)."""
    classes = len(table.bags.classes)
    forests = [grow_forest(table.instances, known, seed + fold) for fold, known in enumerate(table.training)]
    scores = table.cross_fit([partial(label_probabilities, forest, classes) for forest in forests])
    counts = torch.bincount(table.training[0].labels, minlength=classes) + 0.5
    correction = find_correction(scores, table.everything, counts / counts.sum(), wrong)
    return forests, correction, correction.pool.join([correct_scores(scores, *correction[:3])])


def find_correction(scores: Tensor, labelled: LabelledRows, label_shares: Tensor, wrong: float = 0.0) -> Correction:
    """Of scores (n, C) of bags that the forest has not seen."""
    tried = []
    for strength in STRENGTHS:
        for signal in SIGNALS:
            corrected = correct_scores(scores, label_shares, strength, signal)
            pool = find_pool([corrected], labelled, wrong)
            explained = float(evidence(pool.join([corrected[labelled.rows]]), labelled, wrong))
            tried.append((explained, Correction(label_shares, strength, signal, pool)))
    return max(tried, key=lambda one: one[0])[1]
