"""Table: the instances of bags as rows in memory, and members that predict the bags that they were not trained on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...data.bags import Bags
from ...data.segments import Segments
from ...nn.model import Normalise
from .members import FOLDS, Known, Predict, folds_of
from .pooling import LabelledRows

MOST_NUMBERS = 40_000_000  # in the instances that members see; of more, the instances of random bags
MOST_INSTANCES = 60_000


class Table(NamedTuple):
    """The instances that are learned from, and after these the instances of validation bags, which only judge."""

    bags: Bags  # that are learned from
    instances: Tensor  # (n, d), standardised
    sizes: np.ndarray  # (b,)
    labels: np.ndarray  # (b,) -1: none that names one class
    folds: np.ndarray  # (b,) in which no member is trained on it; -1: in all
    weights: Tensor | None  # (n,)

    def rows(self, which: np.ndarray) -> Tensor:  # (b,) -> positions of their instances
        return torch.from_numpy(np.flatnonzero(np.repeat(which, self.sizes)))

    def labelled(self, which: np.ndarray) -> LabelledRows:
        rows = self.rows(which & (self.labels >= 0))
        weights = None if self.weights is None else self.weights[rows]
        numbers = which & (self.labels >= 0)
        return LabelledRows(
            rows, Segments(self.sizes[numbers], weights=weights), torch.from_numpy(self.labels[numbers])
        )

    @property
    def everything(self) -> LabelledRows:
        return self.labelled(np.ones(len(self.sizes), bool))

    def training(self, classes: int) -> list[Known]:
        """What the members of each fold are trained on: the bags of the other folds."""
        others = [self.labelled((self.folds >= 0) & (self.folds != fold)) for fold in range(FOLDS)]
        return [Known(self.instances[part.rows], part.segments, part.labels, classes) for part in others]

    def cross_fit(self, fits: Sequence[Sequence[Predict]], classes: int) -> list[Tensor]:
        """(n, C) predictions by each member, from its models (one of each fold): of a bag by the model of its fold,
        of a bag that none was trained on by the mean of all."""
        others = self.rows(self.folds < 0)
        found = []
        for models in zip(*fits, strict=True):
            predicted = torch.zeros(len(self.instances), classes)
            if len(others):
                predicted[others] = torch.stack([model(self.instances[others]) for model in models]).mean(dim=0)
            for fold, model in enumerate(models):
                if len(rows := self.rows(self.folds == fold)):
                    predicted[rows] = model(self.instances[rows])
            found.append(predicted)
        return found


def make_table(bags: Bags, judges: Sequence[Bags], normalise: Normalise, seed: int) -> Table:
    """Members are trained on `bags`; they and the `judges` show what the members are worth."""
    bags, *judges = (sample(part, seed) for part in (bags, *judges))
    parts = [bags, *judges]
    instances = torch.cat([normalise(torch.from_numpy(np.asarray(part.instances()))) for part in parts])
    labels = np.concatenate([part.labels for part in parts])
    folds = np.full(len(labels), -1)
    numbers = np.flatnonzero(bags.labels >= 0)
    folds[numbers] = folds_of(bags.labels[numbers])
    weights = [np.ones(len(part.index)) if part.weights is None else part.weights for part in parts]
    return Table(
        bags,
        instances,
        np.concatenate([part.sizes for part in parts]),
        labels,
        folds,
        None if bags.weights is None else torch.from_numpy(np.concatenate(weights)).float(),
    )


def sample(bags: Bags, seed: int) -> Bags:
    most = min(MOST_INSTANCES, MOST_NUMBERS // bags.store.shape[1])
    if len(bags.index) <= most:
        return bags
    order = np.random.default_rng(seed).permutation(len(bags))
    number = int(np.searchsorted(bags.sizes[order].cumsum(), most))
    return bags.subset(np.sort(order[: max(number, len(bags.classes))]))
