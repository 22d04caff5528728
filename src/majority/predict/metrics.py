"""All figures of an evaluation, computed from counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..data.instance_labels import UNKNOWN
from ..data.labels import BagLabels
from ..data.winners import majority_of, runner_up_of
from .label_warnings import find_label_warnings, find_skewed_classes

CALIBRATION_BINS = 15


class KnownInstances(NamedTuple):
    """The instances with a known class, in arrays of the same length."""

    bag: np.ndarray  # number of the bag
    true: np.ndarray
    predicted: np.ndarray
    confidence: np.ndarray

    @property
    def bins(self) -> np.ndarray:
        """The calibration bin of each instance."""
        return confidence_bins(self.confidence)


@dataclass(frozen=True)
class Outcome:
    """What a model predicted for bags, next to their labels.

    C is the number of classes. True classes, T of them, are these classes and then those that only instances have.
    True counts, confusion and calibration are over the instances with a known class; they are None if there are none.
    """

    labels: BagLabels | None  # given labels; None: figures about bags are left out
    predicted: np.ndarray  # (b,) by the method's aggregation
    hard_counts: np.ndarray  # (b, C) instances predicted as each class
    true_counts: np.ndarray | None = None  # (b, T)
    confusion: np.ndarray | None = None  # (T, T) rows: true class, columns: predicted class
    calibration: np.ndarray | None = None  # (bins, 3) instances, their summed confidence, how many were correct
    background: int | None = None  # a class that does not vote
    classes: tuple[str, ...] = ()  # their names, for warnings
    known: KnownInstances | None = None  # the instances themselves, for intervals
    weighted_counts: np.ndarray | None = None  # (b, C) sums of the weights of these instances; None: no weights
    weighted_accuracy: float | None = None  # share of the weight of instances that are classified correctly

    @property
    def votes(self) -> np.ndarray:  # (b, C) by which the majority of a bag is found
        return self.hard_counts if self.weighted_counts is None else self.weighted_counts

    def summary(self) -> dict[str, Any]:
        """The figures by name. Figures about instances are left out if no instance labels are known."""
        figures = {**self._bag_figures(), "bags": len(self.hard_counts), "instances": int(self.hard_counts.sum())}
        if self.background is not None:
            figures["background_share"] = float(self.hard_counts[:, self.background].sum() / self.hard_counts.sum())
        if self.confusion is None or self.calibration is None or self.true_counts is None:
            return figures
        return {
            "instance_accuracy": instance_accuracy(self.confusion),
            **({} if self.weighted_accuracy is None else {"weighted_accuracy": self.weighted_accuracy}),
            "macro_f1": macro_f1(self.confusion),
            "mean_iou": mean_iou(self.confusion),
            "calibration_error": calibration_error(self.calibration),
            **self._overestimation(self.true_counts),
            **figures,
            **self._coverage(self.true_counts),
            **({} if self.background is None else background_figures(self.confusion, self.background)),
        }

    @property
    def counted(self) -> np.ndarray:  # (b,) the class with the most predicted instances, by weight if they have weights
        return majority_of(self.votes, self.background)

    def _bag_figures(self) -> dict[str, Any]:
        if self.labels is None:
            return {}
        labels, known, named = self.labels, self.labels.known, self.labels.named
        by_count = self.counted
        figures: dict[str, Any] = {
            "bag_accuracy": float(np.mean(labels.allows(by_count)[known])),
            "method_bag_accuracy": float(np.mean(labels.allows(self.predicted)[known])),
            "most_frequent_label": labels.most_frequent(),
            "consistency_rate": consistency_rate(labels, self.predicted, self.votes, self.background),
        }
        compared = (labels.winners[named], by_count[named])
        skewed = find_skewed_classes(*compared, self.classes, self.background) if self.classes else []
        without_votes = int((by_count[known] == self.background).sum())
        warnings = find_label_warnings(figures | {"bags": int(known.sum())}, skewed, without_votes)
        ranked = self.ranked
        if ranked is not None:
            figures["runner_up_accuracy"] = float(np.mean(self.runner_up_right[ranked]))
        if not known.all():
            figures["labelled_bags"] = int(known.sum())
        return figures | ({"warnings": warnings} if warnings else {})

    @property
    def ranked(self) -> np.ndarray | None:  # (b,) whether the runner-up is given; None: nowhere
        if self.labels is None or self.labels.runner_up is None:
            return None
        return self.labels.seconds != UNKNOWN

    @property
    def runner_up_right(self) -> np.ndarray:  # (b,) whether winner and runner-up have the highest counts, in this order
        assert self.labels is not None
        second = runner_up_of(self.votes, self.background)
        return (self.counted == self.labels.winners) & (second == self.labels.seconds)

    def _fully_known(self, true_counts: np.ndarray) -> np.ndarray:  # (b,) whether all instances of the bag are known
        return true_counts.sum(axis=1) == self.hard_counts.sum(axis=1)

    def _overestimation(self, true_counts: np.ndarray) -> dict[str, Any]:
        """Over the bags all of whose instances are known, if their label names one class."""
        if self.labels is None:
            return {}
        full = self._fully_known(true_counts) & self.labels.named
        if not full.any():
            return {}
        surplus = overestimation(self.labels.winners[full], self.hard_counts[full], true_counts[full])
        quantiles = np.quantile(surplus, [0, 0.25, 0.5, 0.75, 1]).tolist()
        return {"overestimation": float(surplus.mean()), "overestimation_quantiles": quantiles}

    def _coverage(self, true_counts: np.ndarray) -> dict[str, Any]:
        """How many instances are known, and how many bags in full, unless all are."""
        full = self._fully_known(true_counts)
        return {} if full.all() else {"known_instances": int(true_counts.sum()), "known_bags": int(full.sum())}


# ---------------------------------------------------------------- tables of counts


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


# ---------------------------------------------------------------- figures of one or of many confusion matrices


def class_rates(confusion: np.ndarray) -> dict[str, np.ndarray]:
    """(..., T, T) -> by name (..., T): precision, recall and F1 of each class; NaN where a figure is not defined.

    >>> {name: rates.tolist() for name, rates in class_rates(np.array([[3, 1], [0, 4]])).items()}
    {'precision': [1.0, 0.8], 'recall': [0.75, 1.0], 'f1': [0.857..., 0.888...]}
    """
    hits, rows, columns = _margins(confusion)
    return {
        "precision": _ratio(hits, columns),
        "recall": _ratio(hits, rows),
        "f1": _ratio(2 * hits, rows + columns),
    }


def confusion_rates(confusion: np.ndarray) -> dict[str, np.ndarray]:
    """(..., T, T) -> by name (...,): accuracy, and means over the classes that occur or are predicted."""
    hits, rows, columns = _margins(confusion)
    seen = (rows + columns > 0).sum(axis=-1)
    return {
        "instance_accuracy": _ratio(hits.sum(axis=-1), rows.sum(axis=-1)),
        "macro_f1": _ratio(np.nan_to_num(_ratio(2 * hits, rows + columns)).sum(axis=-1), seen),
        "mean_iou": _ratio(np.nan_to_num(_ratio(hits, rows + columns - hits)).sum(axis=-1), seen),
    }


def background_rates(confusion: np.ndarray, background: int) -> dict[str, np.ndarray]:
    """(..., T, T) -> by name (...,): the figures of `background_figures`; NaN where one is not defined."""
    hits, rows, columns = _margins(confusion)
    others = np.delete(np.arange(confusion.shape[-1]), background)
    return {
        "background_precision": _ratio(hits[..., background], columns[..., background]),
        "background_recall": _ratio(hits[..., background], rows[..., background]),
        "voter_accuracy": _ratio(hits[..., others].sum(axis=-1), rows[..., others].sum(axis=-1)),
    }


def calibration_errors(calibration: np.ndarray) -> np.ndarray:
    """(..., bins, 3) -> (...,): see `calibration_error`."""
    instances, confidence, correct = np.moveaxis(calibration, -1, 0)
    return _ratio(np.abs(confidence - correct).sum(axis=-1), instances.sum(axis=-1))


def _margins(confusion: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # (..., T) each
    """Correct predictions, instances and predictions of each class."""
    return np.diagonal(confusion, axis1=-2, axis2=-1), confusion.sum(axis=-1), confusion.sum(axis=-2)


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    part, whole = np.asarray(part, np.float64), np.asarray(whole, np.float64)
    return np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0)


# ---------------------------------------------------------------- figures


def instance_accuracy(confusion: np.ndarray) -> float:
    """
    >>> instance_accuracy(np.array([[3, 1], [0, 4]]))
    0.875
    """
    return float(confusion_rates(confusion)["instance_accuracy"])


def macro_f1(confusion: np.ndarray) -> float:
    """Mean F1 over the classes that occur or are predicted."""
    return float(confusion_rates(confusion)["macro_f1"])


def mean_iou(confusion: np.ndarray) -> float:
    """Mean intersection over union over the classes that occur or are predicted."""
    return float(confusion_rates(confusion)["mean_iou"])


def consistency_rate(
    labels: BagLabels | np.ndarray, predicted: np.ndarray, hard_counts: np.ndarray, background: int | None = None
) -> float | None:
    """Among bags that are predicted correctly, the share whose hard counts have the same majority (lowest class on
    ties). None if no bag is predicted correctly."""
    correct = labels.allows(predicted) if isinstance(labels, BagLabels) else labels == predicted
    if not correct.any():
        return None
    return float(np.mean(majority_of(hard_counts[correct], background) == predicted[correct]))


def overestimation(labels: np.ndarray, hard_counts: np.ndarray, true_counts: np.ndarray) -> np.ndarray:
    """(b,) per bag, the number of instances predicted as the bag's class minus their true number."""
    bags = np.arange(len(labels))
    return hard_counts[bags, labels] - true_counts[bags, labels]


def calibration_error(calibration: np.ndarray) -> float:
    """Expected calibration error: the mean gap between confidence and accuracy over bins of equal width."""
    return float(calibration_errors(calibration))


def background_figures(confusion: np.ndarray, background: int) -> dict[str, float | None]:
    """How well the background is found, and the accuracy over all other instances.

    None if the background is never predicted (precision) or never occurs (recall).
    """
    rates = background_rates(confusion, background)
    return {name: None if np.isnan(rate) else float(rate) for name, rate in rates.items()}


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
