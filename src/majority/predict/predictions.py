"""Predictions: what a classifier says of bags and of their instances, next to all labels that are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan, prod
from typing import Any, NamedTuple

import numpy as np

from ..data.bags import Bags
from ..data.instance_labels import UNKNOWN
from ..data.labels import BagLabels
from ..data.winners import lead_of, majority_of, runner_up_of
from .label_warnings import contradiction_warning, no_learning_warning, skewed_class_warnings
from .metrics import (
    Margins,
    calibration_error,
    calibration_table,
    class_rates,
    confusion_matrix,
    confusion_rates,
    overestimation,
    ratio,
)


class KnownInstances(NamedTuple):
    """The instances with a known and a predicted class, in arrays of the same length."""

    bag: np.ndarray  # number of the bag
    true: np.ndarray
    predicted: np.ndarray
    confidence: np.ndarray
    weights: np.ndarray | None  # None: all count the same


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a classifier says of bags. C is the number of its classes.

    True classes, T of them, are these classes and then those that only instances have. True counts, margins and
    calibration are over the instances with a known class; they are None if there are none.

    >>> bags = Bags.from_lists([np.zeros((3, 2)), np.ones((2, 2))], ["cat", "dog"], names=["a", "b"])
    >>> found = Predictions(bags, bags.classes, np.array([0, 0, 1, 0, 0]), np.full(5, 0.9))
    >>> found.counts.tolist(), found.majority.tolist(), found.right.tolist()
    ([[2, 1], [2, 0]], ['cat', 'cat'], [True, False])
    """

    bags: Bags
    classes: tuple[str, ...]
    guess: np.ndarray  # (n,) predicted class of each instance; -1: it abstains
    confidence: np.ndarray  # (n,) the probability of the most probable class
    by_method: np.ndarray | None = None  # (b,) class of each bag, by the method's aggregation; None: as by count
    background: int | None = None  # a class that does not vote

    # ------------------------------------------------------------ bags

    @cached_property
    def counts(self) -> np.ndarray:  # (b, C) instances predicted as each class
        return self.bags.count_classes(self.guess, len(self.classes), weighted=False)

    @cached_property
    def weighted_counts(self) -> np.ndarray | None:  # (b, C) sums of the weights of these instances; None: no weights
        if self.bags.weights is None:
            return None
        return self.bags.count_classes(self.guess, len(self.classes), weighted=True)

    @property
    def votes(self) -> np.ndarray:  # (b, C) by which the majority of a bag is found
        return self.counts if self.weighted_counts is None else self.weighted_counts

    @cached_property
    def counted(self) -> np.ndarray:  # (b,) the class with the most votes (first class on ties)
        return majority_of(self.votes, self.background)

    @property
    def majority(self) -> np.ndarray:  # (b,) its name, the background's if none votes; empty if none is counted
        return name_majority(self.classes, self.votes, self.background)

    @property
    def share(self) -> np.ndarray:  # (b,) share of that class of the votes; 0 if none votes
        return self._lead[0]

    @property
    def margin(self) -> np.ndarray:  # (b,) share minus the share of the next class
        return self._lead[1]

    @cached_property
    def _lead(self) -> tuple[np.ndarray, np.ndarray]:
        return lead_of(self.votes, self.background)

    @property
    def predicted(self) -> np.ndarray:  # (b,)
        return self.counted if self.by_method is None else self.by_method

    @property
    def labels(self) -> BagLabels | None:  # None: no bag has one, and figures about bags are left out
        return self.bags.bag_labels if self.bags.labelled else None

    @property
    def right(self) -> np.ndarray:  # (b,) by count; False in bags without a label
        return self.bags.bag_labels.allows(self.counted)

    @cached_property
    def framed(self) -> np.ndarray:  # (b,) the class that a report shows first
        """The label; of several, the one with the highest count; without a label, the predicted majority."""
        labels = self.bags.bag_labels
        most_common = np.where(labels.allowed, self.votes, -1).argmax(axis=1)
        return np.where(labels.known, most_common, self.counted)

    @cached_property
    def order(self) -> np.ndarray:  # (b,) bag numbers in the order in which a report shows them
        """Wrong bags first, and within wrong and right bags those with the smallest share of their label; then bags
        without a label, those with the smallest margin first."""
        if not self.bags.labelled:
            return np.lexsort(self._lead)
        labels = self.bags.bag_labels
        share = self.votes[np.arange(len(self.bags)), self.framed] / self.votes.sum(axis=1)
        return np.lexsort((np.where(labels.known, share, self.margin), self.right, ~labels.known))

    def bag_name(self, bag: int) -> str:
        return str(bag if self.bags.names is None else self.bags.names[bag])

    # ------------------------------------------------------------ instances

    def instances_of(self, bag: int) -> np.ndarray:
        return np.arange(self.bags.offsets[bag], self.bags.offsets[bag + 1])

    @property
    def true_classes(self) -> tuple[str, ...]:
        return (*self.classes, *self.bags.true_classes[len(self.classes) :])

    def truth(self, i: int) -> str | None:
        """The true class of an instance; None if it is unknown."""
        labels = self.bags.instance_labels
        return None if labels is None or labels[i] == UNKNOWN else self.true_classes[labels[i]]

    @cached_property
    def known(self) -> KnownInstances | None:
        true, weights = self.bags.instance_labels, self.bags.weights
        if true is None:
            return None
        which = (true != UNKNOWN) & (self.guess != UNKNOWN)
        return KnownInstances(
            self.bags.ids[which],
            true[which],
            self.guess[which],
            self.confidence[which],
            None if weights is None else weights[which],
        )

    @property
    def confusion(self) -> np.ndarray:  # (T, T) rows: true class, columns: predicted class
        """Of the instances with a known class. If there are none, of bags: their label by the class that they count."""
        if self.known is not None:
            return confusion_matrix(self.known.true, self.known.predicted, len(self.true_classes))
        named = self.bags.bag_labels.named
        return confusion_matrix(self.bags.labels[named], self.counted[named], len(self.true_classes))

    @property
    def calibration(self) -> np.ndarray | None:  # (bins, 3) see `calibration_table`
        known = self.known
        return None if known is None else calibration_table(known.confidence, known.predicted == known.true)

    @cached_property
    def margins(self) -> Margins | None:  # (b, T) each
        """Hits, true classes and predictions of the known instances of each bag."""
        if self.known is None:
            return None
        bag, true, predicted, *_ = self.known
        hit = true == predicted
        pairs = ((bag[hit], true[hit]), (bag, true), (bag, predicted))
        shape = (len(self.bags), len(self.true_classes))
        counts = (np.bincount(bags * shape[1] + of, minlength=prod(shape)).reshape(shape) for bags, of in pairs)
        return Margins(*counts)

    @property
    def true_counts(self) -> np.ndarray | None:  # (b, T)
        return None if self.margins is None else self.margins.true

    # ------------------------------------------------------------ figures

    def summary(self) -> dict[str, Any]:
        """The figures by name. Figures about instances are left out if no instance labels are known."""
        calibration = None if self.calibration is None else self.calibration[None]
        found = self.figures(np.ones((1, len(self.bags))), calibration)
        figures: dict[str, Any] = {name: _number(value[0]) for name, value in found.items()}
        if self.known is not None and self.known.weights is not None:
            right = self.known.predicted == self.known.true
            figures["weighted_accuracy"] = float(np.average(right, weights=self.known.weights))
        if self.labels is not None:
            figures |= self._about_labels(self.labels, figures)
        figures |= {"bags": len(self.bags), "instances": int(self.counts.sum())}
        if self.margins is None:
            return figures
        if "overestimation" in figures:
            surplus = self.surplus[self.compared].astype(np.float64)
            figures["overestimation_quantiles"] = np.quantile(surplus, [0, 0.25, 0.5, 0.75, 1]).tolist()
        if not self.bags.fully_known.all():
            figures |= {"known_instances": int(self.margins.true.sum()), "known_bags": int(self.bags.fully_known.sum())}
        return figures

    def _about_labels(self, labels: BagLabels, figures: Mapping[str, Any]) -> dict[str, Any]:
        known, named = labels.known, labels.named
        about: dict[str, Any] = {"most_frequent_label": labels.most_frequent()}
        of_labelled = {**figures, **about, "bags": int(known.sum())}
        warnings = [*filter(None, (no_learning_warning(of_labelled), contradiction_warning(of_labelled)))]
        compared = (labels.winners[named], self.counted[named])
        warnings += skewed_class_warnings(*compared, self.classes, self.background)
        about |= {} if known.all() else {"labelled_bags": int(known.sum())}
        return about | ({"warnings": warnings} if warnings else {})

    def figures(self, weights: np.ndarray, calibration: np.ndarray | None) -> dict[str, np.ndarray]:
        """Of samples of the bags: (r, b) how often each bag counts, and (r, bins, 3) -> by name (r,); NaN: not
        defined."""
        figures = {name: ratio(weights @ part, weights @ whole) for name, (part, whole) in self.ratios.items()}
        if self.margins is None or calibration is None:
            return figures
        margins = Margins(*(weights @ of_bags for of_bags in self.margins))
        return confusion_rates(margins) | {"calibration_error": calibration_error(calibration)} | figures

    @cached_property
    def ratios(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """The figures that are ratios: (b,) numerator and (b,) denominator in each bag. All but `overestimation` are
        shares."""
        ratios = {}
        if self.labels is not None:
            labels, known = self.labels, self.labels.known
            right = labels.allows(self.predicted)
            ratios = {"bag_accuracy": (self.right, known), "method_bag_accuracy": (right, known)}
            ratios["consistency_rate"] = (right & (self.counted == self.predicted), right)
            if labels.runner_up is not None:
                second = runner_up_of(self.votes, self.background)
                ranked = labels.seconds != UNKNOWN
                in_order = (self.counted == labels.winners) & (second == labels.seconds)
                ratios["runner_up_accuracy"] = (in_order & ranked, ranked)
        if self.background is not None:
            ratios["background_share"] = (self.counts[:, self.background], self.counts.sum(axis=1))
        if self.margins is None:
            return ratios
        hits, true, predicted = self.margins
        ratios["instance_accuracy"] = (hits.sum(axis=1), true.sum(axis=1))
        if self.background is not None:
            found, others = hits[:, self.background], np.delete(np.arange(true.shape[1]), self.background)
            ratios["background_precision"] = (found, predicted[:, self.background])
            ratios["background_recall"] = (found, true[:, self.background])
            ratios["voter_accuracy"] = (hits[:, others].sum(axis=1), true[:, others].sum(axis=1))
        if self.compared.any():
            ratios["overestimation"] = (self.surplus * self.compared, self.compared)
        return ratios

    @property
    def compared(self) -> np.ndarray:  # (b,) bags whose overestimation is known: of one label, and fully known
        return self.bags.fully_known & (False if self.labels is None else self.labels.named)

    @property
    def surplus(self) -> np.ndarray:  # (b,) see `overestimation`
        assert self.margins is not None
        return overestimation(self.bags.labels, self.counts, self.margins.true)

    def class_recall(self) -> dict[str, float | None]:
        """The share of each class that is found: of its instances or, if none is labelled, of its bags."""
        recall = class_rates(Margins.of(self.confusion))["recall"].tolist()
        return dict(zip(self.true_classes, map(_number, recall), strict=True))


def name_majority(classes: Sequence[str] | np.ndarray, votes: np.ndarray, background: int | None) -> np.ndarray:
    """(b, C) -> (b,) the name of the class with the most votes; empty if no instance is counted."""
    return np.where(votes.any(axis=1), np.asarray(classes)[majority_of(votes, background)], "")


def _number(value: float) -> float | None:
    return None if isnan(value) else float(value)
