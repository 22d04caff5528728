"""All figures of an evaluation, computed from counts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..data.instance_labels import UNKNOWN
from ..data.labels import BagLabels
from ..data.winners import majority_of, runner_up_of
from .label_warnings import contradiction_warning, no_learning_warning, skewed_class_warnings

CALIBRATION_BINS = 15


class KnownInstances(NamedTuple):
    """The instances with a known class, in arrays of the same length."""

    bag: np.ndarray  # number of the bag
    true: np.ndarray
    predicted: np.ndarray
    confidence: np.ndarray
    weights: np.ndarray | None = None  # None: all count the same


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a model predicted for bags, next to their labels.

    C is the number of classes. True classes, T of them, are these classes and then those that only instances have.
    True counts, confusion and calibration are over the instances with a known class; they are None if there are none.
    """

    labels: BagLabels | None  # given labels; None: figures about bags are left out
    predicted: np.ndarray  # (b,) by the method's aggregation
    hard_counts: np.ndarray  # (b, C) instances predicted as each class
    known: KnownInstances | None = None
    n_true: int = 0  # T
    background: int | None = None  # a class that does not vote
    classes: tuple[str, ...] = ()  # their names, for warnings
    weighted_counts: np.ndarray | None = None  # (b, C) sums of the weights of these instances; None: no weights

    @property
    def votes(self) -> np.ndarray:  # (b, C) by which the majority of a bag is found
        return self.hard_counts if self.weighted_counts is None else self.weighted_counts

    @cached_property
    def counted(self) -> np.ndarray:  # (b,) the class with the most predicted instances, by weight if they have weights
        return majority_of(self.votes, self.background)

    @property
    def confusion(self) -> np.ndarray | None:  # (T, T) rows: true class, columns: predicted class
        known = self.known
        return None if known is None else confusion_matrix(known.true, known.predicted, self.n_true)

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
        shape = (len(self.predicted), self.n_true)
        counts = (np.bincount(bags * self.n_true + of, minlength=math.prod(shape)).reshape(shape) for bags, of in pairs)
        return Margins(*counts)

    @property
    def true_counts(self) -> np.ndarray | None:  # (b, T)
        return None if self.margins is None else self.margins.true

    def summary(self) -> dict[str, Any]:
        """The figures by name. Figures about instances are left out if no instance labels are known."""
        calibration = None if self.calibration is None else self.calibration[None]
        found = self.figures(np.ones((1, len(self.predicted))), calibration)
        figures: dict[str, Any] = {name: _number(value[0]) for name, value in found.items()}
        if self.known is not None and self.known.weights is not None:
            right = self.known.predicted == self.known.true
            figures["weighted_accuracy"] = float(np.average(right, weights=self.known.weights))
        if self.labels is not None:
            figures |= self._about_labels(self.labels, figures)
        figures |= {"bags": len(self.hard_counts), "instances": int(self.hard_counts.sum())}
        if self.margins is None:
            return figures
        if "overestimation" in figures:
            surplus = self.surplus[self.compared].astype(np.float64)
            figures["overestimation_quantiles"] = np.quantile(surplus, [0, 0.25, 0.5, 0.75, 1]).tolist()
        if not self.fully_known.all():
            figures |= {"known_instances": int(self.margins.true.sum()), "known_bags": int(self.fully_known.sum())}
        return figures

    def _about_labels(self, labels: BagLabels, figures: Mapping[str, Any]) -> dict[str, Any]:
        known, named = labels.known, labels.named
        about: dict[str, Any] = {"most_frequent_label": labels.most_frequent()}
        of_labelled = {**figures, **about, "bags": int(known.sum())}
        warnings = [*filter(None, (no_learning_warning(of_labelled), contradiction_warning(of_labelled)))]
        if self.classes:
            compared = (labels.winners[named], self.counted[named])
            warnings += skewed_class_warnings(*compared, self.classes, self.background)
        about |= {} if known.all() else {"labelled_bags": int(known.sum())}
        return about | ({"warnings": warnings} if warnings else {})

    # ------------------------------------------------------------ figures of one or of many samples of the bags

    def figures(self, weights: np.ndarray, calibration: np.ndarray | None) -> dict[str, np.ndarray]:
        """(r, b) how often each bag counts, and (r, bins, 3) for these samples -> by name (r,); NaN: not defined."""
        figures = {name: _ratio(weights @ part, weights @ whole) for name, (part, whole) in self.ratios.items()}
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
            ratios = {"bag_accuracy": (labels.allows(self.counted), known), "method_bag_accuracy": (right, known)}
            ratios["consistency_rate"] = (right & (self.counted == self.predicted), right)
            if labels.runner_up is not None:
                second = runner_up_of(self.votes, self.background)
                ranked = labels.seconds != UNKNOWN
                in_order = (self.counted == labels.winners) & (second == labels.seconds)
                ratios["runner_up_accuracy"] = (in_order & ranked, ranked)
        if self.background is not None:
            ratios["background_share"] = (self.hard_counts[:, self.background], self.hard_counts.sum(axis=1))
        if self.margins is None:
            return ratios
        hits, true, predicted = self.margins
        ratios["instance_accuracy"] = (hits.sum(axis=1), true.sum(axis=1))
        if self.background is not None:
            found, others = hits[:, self.background], np.delete(np.arange(self.n_true), self.background)
            ratios["background_precision"] = (found, predicted[:, self.background])
            ratios["background_recall"] = (found, true[:, self.background])
            ratios["voter_accuracy"] = (hits[:, others].sum(axis=1), true[:, others].sum(axis=1))
        if self.compared.any():
            ratios["overestimation"] = (self.surplus * self.compared, self.compared)
        return ratios

    @property
    def fully_known(self) -> np.ndarray:  # (b,) whether all instances of the bag are known
        assert self.margins is not None
        return self.margins.true.sum(axis=1) == self.hard_counts.sum(axis=1)

    @property
    def compared(self) -> np.ndarray:  # (b,) bags whose overestimation is known: of one label, and fully known
        return self.fully_known & (False if self.labels is None else self.labels.named)

    @property
    def surplus(self) -> np.ndarray:  # (b,) see `overestimation`
        assert self.labels is not None
        assert self.margins is not None
        return overestimation(self.labels.winners, self.hard_counts, self.margins.true)


# ---------------------------------------------------------------- tables of counts


class Margins(NamedTuple):
    """Of a confusion matrix, or of several: all that figures need of it."""

    hits: np.ndarray  # (..., T) correct predictions of each class
    true: np.ndarray  # (..., T) instances of each class
    predicted: np.ndarray  # (..., T) predictions of each class

    @classmethod
    def of(cls, confusion: np.ndarray) -> Margins:
        """(T, T) -> (T,)"""
        return cls(np.diagonal(confusion), confusion.sum(axis=1), confusion.sum(axis=0))


def confusion_matrix(true: np.ndarray, predicted: np.ndarray, n_classes: int) -> np.ndarray:
    """(n,), (n,) -> (classes, classes): how often each true class (row) was predicted as each class (column).

    >>> confusion_matrix(np.array([0, 0, 1]), np.array([0, 1, 1]), 2).tolist()
    [[1, 1], [0, 1]]
    """
    return np.bincount(true * n_classes + predicted, minlength=n_classes * n_classes).reshape(n_classes, n_classes)


def calibration_table(confidence: np.ndarray, correct: np.ndarray) -> np.ndarray:
    """(n,), (n,) -> (bins, 3): instances, summed confidence and correct predictions by confidence.

    The bins are (0, 1/15], (1/15, 2/15], ...
    """
    bins = confidence_bins(confidence)
    columns = (np.ones_like(confidence), confidence, correct)
    return np.stack([np.bincount(bins, values, CALIBRATION_BINS) for values in columns], axis=1)


def confidence_bins(confidence: np.ndarray) -> np.ndarray:
    return np.clip(np.ceil(confidence * CALIBRATION_BINS).astype(np.int64), 1, CALIBRATION_BINS) - 1


# ---------------------------------------------------------------- figures; NaN where one is not defined


def class_rates(margins: Margins) -> dict[str, np.ndarray]:
    """By name (..., T): precision, recall and F1 of each class.

    >>> {name: rates.tolist() for name, rates in class_rates(Margins.of(np.array([[3, 1], [0, 4]]))).items()}
    {'precision': [1.0, 0.8], 'recall': [0.75, 1.0], 'f1': [0.857..., 0.888...]}
    """
    hits, true, predicted = margins
    return {
        "precision": _ratio(hits, predicted),
        "recall": _ratio(hits, true),
        "f1": _ratio(2 * hits, true + predicted),
    }


def confusion_rates(margins: Margins) -> dict[str, np.ndarray]:
    """By name (...,): accuracy, and means over the classes that occur or are predicted.

    >>> float(confusion_rates(Margins.of(np.array([[3, 1], [0, 4]])))["instance_accuracy"])
    0.875
    """
    hits, true, predicted = margins
    seen = (true + predicted > 0).sum(axis=-1)
    return {
        "instance_accuracy": _ratio(hits.sum(axis=-1), true.sum(axis=-1)),
        "macro_f1": _ratio(np.nan_to_num(_ratio(2 * hits, true + predicted)).sum(axis=-1), seen),
        "mean_iou": _ratio(np.nan_to_num(_ratio(hits, true + predicted - hits)).sum(axis=-1), seen),
    }


def calibration_error(calibration: np.ndarray) -> np.ndarray:
    """(..., bins, 3) -> (...,): the mean gap between confidence and accuracy over bins of equal width."""
    instances, confidence, correct = np.moveaxis(calibration, -1, 0)
    return _ratio(np.abs(confidence - correct).sum(axis=-1), instances.sum(axis=-1))


def overestimation(labels: np.ndarray, hard_counts: np.ndarray, true_counts: np.ndarray) -> np.ndarray:
    """(b,) per bag, the number of instances predicted as the bag's class minus their true number."""
    bags = np.arange(len(labels))
    return hard_counts[bags, labels] - true_counts[bags, labels]


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    part, whole = np.asarray(part, np.float64), np.asarray(whole, np.float64)
    return np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0)


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


# ---------------------------------------------------------------- what the figures do not show


def coverage_note(*parts: Mapping[str, Any]) -> str | None:
    """A note if only some instances of these parts, such as folds, have a known class.

    >>> print(coverage_note({"instances": 9000, "bags": 100, "known_instances": 2000, "known_bags": 0}))
    instance figures are over the 2,000 of 9,000 instances with a known class
    >>> coverage_note({"instances": 9000, "bags": 100})
    """
    known, total = _sum_known(parts, "instances"), sum(part.get("instances", 0) for part in parts)
    if known in (0, total):
        return None
    note = f"instance figures are over the {known:,} of {total:,} instances with a known class"
    if any("overestimation" in part for part in parts):
        full, bags = _sum_known(parts, "bags"), sum(part.get("bags", 0) for part in parts)
        note += f", overestimation over the {full:,} of {bags:,} bags whose instances are all known"
    return note


def _sum_known(parts: tuple[Mapping[str, Any], ...], unit: str) -> int:
    """Over all parts; a part with instance figures but without a number of known instances is known in full."""
    return sum(part.get(f"known_{unit}", part.get(unit, 0) if "instance_accuracy" in part else 0) for part in parts)
