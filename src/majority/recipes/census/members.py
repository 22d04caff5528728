"""Members of a pool for vectors: linear models and a forest. Each is trained on some bags and predicts others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ...data.bags import Bags
from ...data.segments import Segments
from ...nn.backbones.trees import Trees
from ...nn.model import Model, Normalise
from ...training.optimizers import LBFGS
from .pooling import LabelledRows, Rescaling, evidence_as_it_is, label_scores, rescale, weights_by

GROUPS = range(4)  # of bags
PAIRS = list(combinations(GROUPS, 2))  # a linear model and a forest of each
MOST_NUMBERS = 40_000_000  # in the instances that members see; of more, the instances of random bags
MOST_INSTANCES = 60_000
LOSSES = ("vote", "soft-count")  # of linear models
RIDGES = (3e-1, 1e-1, 1e-2, 1e-3)  # the strongest first: each starts from the one before
SOFT_COUNT_TEMPERATURE = 0.1
ITERATIONS = 40
DISCOUNT = 0.25  # of the evidence for a linear model: the instances of a bag are not as independent as votes
TREES = 20  # of the forest of each pair of groups
KEPT = 0.6  # share of the instances in several bags that a tree learns from; the others it predicts
LEAF, MOST_LEAVES = 3, 2_000  # instances in a leaf, at least; leaves of a tree, about
STRENGTHS = (0.0, 0.5, 1.0)  # of the correction of a forest, which are tried
SIGNALS = (0.05, 0.1, 0.3)
LOWEST = 1e-3  # corrected score, as a share of that of a class at random

Predict = Callable[[Tensor], Tensor]  # (m,) positions of instances in a table -> (m, C)


# ---------------------------------------------------------------------- bags as rows in memory


class Table:
    """The instances that are learned from, and after these the instances of validation bags, which only judge."""

    def __init__(self, bags: Bags, judges: Sequence[Bags], normalise: Normalise, seed: int):
        parts = [sample(part, seed) for part in (bags, *judges)]
        self.bags = parts[0]  # that are learned from
        self.instances = torch.cat([normalise(torch.from_numpy(np.asarray(part.instances()))) for part in parts])
        self.sizes = np.concatenate([part.sizes for part in parts])
        self.labels = np.concatenate([part.labels for part in parts])  # -1: none that names one class
        self.groups = np.full(len(self.labels), -1)  # of the bags that members are trained on
        numbers = np.flatnonzero(self.bags.labels >= 0)
        self.groups[numbers] = groups_of(self.bags.labels[numbers])
        weights = [np.ones(len(part.index)) if part.weights is None else part.weights for part in parts]
        self.weights = None if bags.weights is None else torch.from_numpy(np.concatenate(weights)).float()
        spreads = normalise.std * (self.instances != self.instances[0]).any(dim=0)  # a constant column has none
        rows = pd.util.hash_pandas_object(pd.DataFrame(self.instances.numpy()), index=False)
        self.numbers = pd.factorize(rows)[0]  # (n,) the same for equal instances
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
        """The bags of each pair of groups; all, if there are too few for four groups."""
        parts = [np.isin(self.groups, pair) for pair in PAIRS]
        return [self.labelled(part if part.any() else self.groups >= 0) for part in parts]

    def cross_fit(
        self, models: Sequence[Predict], seen: Sequence[Collection[int]] = PAIRS, unseen: int | None = None
    ) -> Tensor:  # (n, C)
        """The mean prediction by the models that have not seen the group of the bag, nor the group `unseen`.

        A network that learns from these predictions has not seen the labels of that group in any way.
        """
        total = torch.zeros(len(self.instances), len(self.bags.classes))
        numbers = torch.zeros(len(self.instances), 1)
        for model, groups in zip(models, seen, strict=True):
            if unseen not in groups:
                rows = self.rows(~np.isin(self.groups, list(groups)))
                total[rows] += model(rows)
                numbers[rows] += 1
        return total / numbers


def sample(bags: Bags, seed: int) -> Bags:
    most = min(MOST_INSTANCES, MOST_NUMBERS // bags.store.shape[1])
    if len(bags.index) <= most:
        return bags
    order = np.random.default_rng(seed).permutation(len(bags))
    number = int(np.searchsorted(bags.sizes[order].cumsum(), most))
    return bags.subset(np.sort(order[: max(number, len(bags.classes))]))


def groups_of(labels: np.ndarray) -> np.ndarray:
    """A group for each bag, such that bags with the same label are spread over all groups.

    >>> groups_of(np.array([0, 1, 0, 0, 1])).tolist()
    [0, 3, 1, 2, 0]
    """
    groups = np.empty(len(labels), int)
    groups[np.argsort(labels, kind="stable")] = np.arange(len(labels)) % len(GROUPS)
    return groups


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


def linear_member(table: Table, wrong: float) -> list[Tensor]:
    """For each pair of groups, the models of all losses and ridges as one, which is linear, too: its weights
    (d + 1, C), the last row of which is added.

    Columns are standardised, or as they are but for one common scale. There the ridge spares those that vary most, such
    as a position beside the columns of an embedding.
    """
    classes = len(table.bags.classes)
    kinds: list[list[Tensor]] = []  # weights of each kind, scale, loss and ridge, of each pair
    for scales in (torch.ones_like(table.scales), table.scales):
        back = torch.cat([scales, torch.ones(1)]).unsqueeze(1)
        for loss in LOSSES:
            of_pairs = [fit_linear(table.instances * scales, known, classes, loss) for known in table.training]
            kinds += [[weights * back for weights in of_ridge] for of_ridge in zip(*of_pairs, strict=True)]
    explained = [evidence_as_it_is(predict_pairs(table, weights), table.everything, wrong) for weights in kinds]
    of_kinds = torch.tensor(weights_by(explained, DISCOUNT))
    return [torch.tensordot(of_kinds, torch.stack(weights), dims=1) for weights in zip(*kinds, strict=True)]


def predict_pairs(table: Table, of_pairs: Sequence[Tensor], unseen: int | None = None) -> Tensor:  # (n, C)
    def model(weights: Tensor) -> Predict:
        return lambda rows: predict_linear(weights, table.instances[rows])

    return table.cross_fit([model(weights) for weights in of_pairs], unseen=unseen)


# ---------------------------------------------------------------------- a forest


class Forest:
    """Trees of scikit-learn that learn, for every instance, the label of its bag.

    An instance may be in several bags. Then trees that were grown without it predict it: others would tell the labels
    of its other bags.
    """

    def __init__(self, table: Table, known: LabelledRows, seed: int):
        from sklearn.tree import ExtraTreeClassifier

        rng = np.random.default_rng(seed)
        leaf = max(LEAF, len(known.rows) // MOST_LEAVES)
        labels = known.segments.spread(known.labels).numpy()
        weights = known.segments.scaled_weights
        instances, numbers = table.instances[known.rows].numpy(), table.numbers[known.rows]
        several = (np.bincount(table.numbers) > 1) & np.isin(np.arange(table.numbers.max() + 1), numbers)
        self.table, self.trees, self.predicted = table, [], []  # the last: which numbers a tree may predict
        for _ in range(TREES):
            without = several & (rng.random(len(several)) > KEPT)
            if without[numbers].all():  # of a few instances
                without[:] = False
            used = ~without[numbers]
            tree = ExtraTreeClassifier(min_samples_leaf=leaf, random_state=int(rng.integers(2**31)))
            tree.fit(instances[used], labels[used], None if weights is None else weights.numpy()[used])
            self.trees.append(tree)
            self.predicted.append(without | ~several)

    def __call__(self, rows: Tensor) -> Tensor:  # (m,) -> (m, C)
        instances, numbers = self.table.instances[rows].numpy(), self.table.numbers[rows]
        total = np.full((len(rows), len(self.table.bags.classes)), 1e-12)
        for tree, predicted in zip(self.trees, self.predicted, strict=True):
            asked = predicted[numbers]
            if asked.any():
                total[np.ix_(asked, tree.classes_)] += tree.predict_proba(instances[asked])
        return torch.from_numpy(total / total.sum(axis=1, keepdims=True)).float()


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
    rescaling: Rescaling

    def correct(self, scores: Tensor) -> Tensor:  # (n, C) -> (n, C)
        return self.rescaling.apply(correct_scores(scores, self.label_shares, self.strength, self.signal))


def forest_member(table: Table, seed: int, wrong: float) -> tuple[list[Forest], Correction]:
    """The forest of each pair of groups, and the correction of their scores by bags that they have not seen."""
    forests = [Forest(table, known, seed + number) for number, known in enumerate(table.training)]
    counts = torch.from_numpy(np.bincount(table.labels[table.groups >= 0], minlength=len(table.bags.classes))) + 0.5
    return forests, find_correction(table.cross_fit(forests), table.everything, counts / counts.sum(), wrong)


def find_correction(scores: Tensor, labelled: LabelledRows, label_shares: Tensor, wrong: float = 0.0) -> Correction:
    """Of scores (n, C) of bags that the forest has not seen."""
    tried = []
    for strength in STRENGTHS:
        for signal in SIGNALS:
            rescaling, found = rescale(correct_scores(scores, label_shares, strength, signal), labelled, wrong)
            tried.append((found, Correction(label_shares, strength, signal, rescaling)))
    return max(tried, key=lambda one: one[0])[1]


def as_trees(forests: Sequence[Forest], correction: Correction) -> Trees:
    """All forests and their correction as tensors."""
    trees = Trees.of([tree for forest in forests for tree in forest.trees], len(correction.label_shares))
    of_classes = class_shares(correction.label_shares, correction.strength)
    ratios = of_classes / correction.label_shares  # `correct_scores`, and the rescaling, as an affine map
    trees.shift.copy_(of_classes)
    trees.matrix.copy_((torch.diag(ratios) - torch.outer(of_classes, ratios)) / correction.signal)
    trees.lowest.copy_(LOWEST * of_classes)
    trees.weight.fill_(correction.rescaling.scale)
    trees.offsets.copy_(torch.tensor(correction.rescaling.offsets))
    return trees


def model_of_trees(trees: Trees, like: Model, bags: Bags) -> Model:
    """A model whose logits are what the trees say."""
    model = Model(replace(like.spec, backbone=trees.name), like.normalise, trees)
    model.see_labels(bags.bag_labels)
    head: Any = model.head
    head.classifier.load_state_dict({"weight": torch.eye(len(bags.classes)), "bias": torch.zeros(len(bags.classes))})
    return model
