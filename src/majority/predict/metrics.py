"""Figures of an evaluation as functions of counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

CALIBRATION_BINS = 15
SKEWED = 0.6  # of the labels
FIGURES = {  # title, meaning
    "instance_accuracy": ("instance accuracy", "instances classified correctly"),
    "weighted_accuracy": ("weighted accuracy", "the same by weight, not by number"),
    "voter_accuracy": ("voter accuracy", "the same without the background's instances"),
    "macro_f1": ("macro F1", "mean F1 score over classes"),
    "mean_iou": ("mean IoU", "mean intersection over union over classes"),
    "bag_accuracy": ("bag accuracy", "bags whose most frequent predicted class is the label"),
    "method_bag_accuracy": ("method bag accuracy", "bags whose label the method itself predicts"),
    "runner_up_accuracy": ("runner-up accuracy", "bags whose winner and runner-up are predicted, of those with one"),
    "most_frequent_label": ("most frequent label", "bag accuracy of always predicting it"),
    "consistency_rate": ("consistency rate", "bags whose count agrees, of those that the method predicts"),
    "overestimation": ("overestimation", "mean surplus of instances predicted as the bag's class"),
    "background_share": ("background", "instances predicted as background"),
    "background_precision": ("background precision", "background instances, of those predicted as it"),
    "background_recall": ("background recall", "background instances that are predicted as it"),
    "calibration_error": ("calibration error", "mean gap between confidence and accuracy"),
}


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
        "precision": ratio(hits, predicted),
        "recall": ratio(hits, true),
        "f1": ratio(2 * hits, true + predicted),
    }


def confusion_rates(margins: Margins) -> dict[str, np.ndarray]:
    """By name (...,): accuracy, and means over the classes that occur or are predicted.

    >>> float(confusion_rates(Margins.of(np.array([[3, 1], [0, 4]])))["instance_accuracy"])
    0.875
    """
    hits, true, predicted = margins
    seen = (true + predicted > 0).sum(axis=-1)
    return {
        "instance_accuracy": ratio(hits.sum(axis=-1), true.sum(axis=-1)),
        "macro_f1": ratio(np.nan_to_num(ratio(2 * hits, true + predicted)).sum(axis=-1), seen),
        "mean_iou": ratio(np.nan_to_num(ratio(hits, true + predicted - hits)).sum(axis=-1), seen),
    }


def calibration_error(calibration: np.ndarray) -> np.ndarray:
    """(..., bins, 3) -> (...,): the mean gap between confidence and accuracy over bins of equal width."""
    instances, confidence, correct = np.moveaxis(calibration, -1, 0)
    return ratio(np.abs(confidence - correct).sum(axis=-1), instances.sum(axis=-1))


def overestimation(labels: np.ndarray, hard_counts: np.ndarray, true_counts: np.ndarray) -> np.ndarray:
    """(b,) per bag, the number of instances predicted as the bag's class minus their true number."""
    bags = np.arange(len(labels))
    return hard_counts[bags, labels] - true_counts[bags, labels]


def ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    part, whole = np.asarray(part, np.float64), np.asarray(whole, np.float64)
    return np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0)


# ---------------------------------------------------------------- what the figures do not show


def coverage_note(*parts: Mapping[str, Any]) -> str | None:
    """A note if only some instances of these parts, such as folds, have a known class.

    >>> print(coverage_note({"instances": 9000, "known_instances": 2000, "instance_accuracy": 0.9}))
    instance figures are over the 2,000 of 9,000 instances with a known class
    >>> coverage_note({"instances": 9000, "instance_accuracy": 0.9})
    """
    total = sum(part.get("instances", 0) for part in parts)
    known = sum(part.get("known_instances", part.get("instances", 0)) for part in parts if "instance_accuracy" in part)
    if known in (0, total):
        return None
    return f"instance figures are over the {known:,} of {total:,} instances with a known class"


# ---------------------------------------------------------------- which figures come first


def is_skewed(figures: Mapping[str, Any]) -> bool:
    """Whether most bags have the same label: the accuracy of always predicting it is then high."""
    return figures.get("most_frequent_label", 0.0) >= SKEWED


def in_order(figures: Mapping[str, Any]) -> dict[str, Any]:
    """The figures, those first that say most.

    >>> [*in_order({"instance_accuracy": 0.9, "macro_f1": 0.4, "most_frequent_label": 0.8})]
    ['macro_f1', 'instance_accuracy', 'most_frequent_label']
    """
    first = {"macro_f1": figures["macro_f1"]} if is_skewed(figures) and "macro_f1" in figures else {}
    return first | dict(figures)
