"""Which figures of an evaluation come first."""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan
from typing import Any

from ..predict.metrics import Margins, class_rates
from .classified_bags import ClassifiedBags

SKEWED = 0.6  # of the labels


def is_skewed(figures: Mapping[str, Any]) -> bool:
    """Whether most bags have the same label: the accuracy of always predicting it is then high."""
    return figures.get("most_frequent_label", 0.0) >= SKEWED


def class_recall(classified: ClassifiedBags) -> dict[str, float | None]:
    """The share of each class that is found: of its instances or, if none is labelled, of its bags."""
    recall = class_rates(Margins.of(classified.confusion()))["recall"].tolist()
    return {name: None if isnan(found) else found for name, found in zip(classified.true_classes, recall, strict=True)}


def in_order(figures: Mapping[str, Any]) -> dict[str, Any]:
    """The figures, those first that say most.

    >>> [*in_order({"instance_accuracy": 0.9, "macro_f1": 0.4, "most_frequent_label": 0.8})]
    ['macro_f1', 'instance_accuracy', 'most_frequent_label']
    """
    first = {"macro_f1": figures["macro_f1"]} if is_skewed(figures) and "macro_f1" in figures else {}
    return first | dict(figures)
