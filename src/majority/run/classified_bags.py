"""Bags and the predictions of a classifier for them: the data of a report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import isnan
from typing import Any

import numpy as np

from ..data.bags import Bags
from ..data.instance_labels import UNKNOWN
from ..data.winners import lead_of, majority_of
from ..io import Source
from ..io.predictions import instance_ids
from ..predict.classifier import Classifier
from ..predict.evaluate import Predictions, compare, predict
from ..predict.metrics import Margins, Outcome, class_rates, confusion_matrix

SKEWED = 0.6  # of the labels


@dataclass(frozen=True)
class ClassifiedBags:
    bags: Bags
    classes: tuple[str, ...]  # of the classifier
    predicted: np.ndarray  # (b,) class of each bag, by the method's aggregation
    counts: np.ndarray  # (b, C) instances predicted as each class
    guess: np.ndarray  # (n,) predicted class of each instance
    confidence: np.ndarray  # (n,) its probability
    weighted_counts: np.ndarray | None = None  # (b, C) sums of the weights of these instances; None: no weights
    background: int | None = None  # a class that does not vote
    source: Source | None = None  # of the bags, if it is known

    @property
    def right(self) -> np.ndarray:  # (b,) by count; False in bags without a label
        return self.bags.bag_labels.allows(self.counted)

    @property
    def votes(self) -> np.ndarray:  # (b, C) by which the majority of a bag is found
        return self.counts if self.weighted_counts is None else self.weighted_counts

    @cached_property
    def counted(self) -> np.ndarray:  # (b,) the class with the most votes
        return majority_of(self.votes, self.background)

    @cached_property
    def lead(self) -> tuple[np.ndarray, np.ndarray]:  # (b,) share of that class, and its margin over the next
        return lead_of(self.votes, self.background)

    @cached_property
    def order(self) -> np.ndarray:  # (b,) bag numbers in the order in which a report shows them
        """Wrong bags first, and within wrong and right bags those with the smallest share of their label; then bags
        without a label, those with the smallest margin first."""
        if not self.bags.labelled:
            return np.lexsort(self.lead)
        labels = self.bags.bag_labels
        share = self.votes[np.arange(len(self.bags)), self.framed] / self.votes.sum(axis=1)
        return np.lexsort((np.where(labels.known, share, self.lead[1]), self.right, ~labels.known))

    @cached_property
    def framed(self) -> np.ndarray:  # (b,) the class that a report shows first
        """The label; of several, the one with the highest count; without a label, the predicted majority."""
        labels = self.bags.bag_labels
        most_common = np.where(labels.allowed, self.votes, -1).argmax(axis=1)
        return np.where(labels.known, most_common, self.counted)

    def instances_of(self, bag: int) -> np.ndarray:
        return np.arange(self.bags.offsets[bag], self.bags.offsets[bag + 1])

    def bag_name(self, bag: int) -> str:
        return str(bag if self.bags.names is None else self.bags.names[bag])

    def instance_name(self, i: int) -> str:
        """The path or the number of an instance, as in prediction files."""
        kind, (name,) = instance_ids(self.bags, np.array([i]), self.source)
        return str(name) if kind == "path" else f"{kind} {name}"

    @property
    def true_classes(self) -> tuple[str, ...]:
        """The classes of the classifier, then those that only instances have."""
        return (*self.classes, *self.bags.true_classes[len(self.classes) :])

    def truth(self, i: int) -> str | None:
        """The true class of an instance; None if it is unknown."""
        labels = self.bags.instance_labels
        return None if labels is None or labels[i] == UNKNOWN else self.true_classes[labels[i]]

    def wrong_instances(self) -> np.ndarray:  # (n,) False if the true class is unknown
        true = self.bags.instance_labels
        return np.zeros(len(self.guess), bool) if true is None else (true != UNKNOWN) & (self.guess != true)

    def confusion(self) -> np.ndarray:  # (true classes, true classes)
        """Of the instances with a known class. If there are none, of bags: their label by the class that they count."""
        true, predicted = self.bags.instance_labels, self.guess
        if true is None:
            true, predicted = self.bags.labels, self.counted
        known = true != UNKNOWN
        return confusion_matrix(true[known], predicted[known], len(self.true_classes))

    def outcome(self) -> Outcome:
        """The same as `evaluate`, without another pass."""
        predictions = Predictions(self.predicted, self.counts, self.guess, self.confidence, self.weighted_counts)
        return compare(self.bags, predictions, self.background)


def classify_bags(classifier: Classifier, bags: Bags, source: Source | None = None) -> ClassifiedBags:
    """One pass of the classifier over the bags."""
    background = classifier.model.spec.background
    index = None if background is None else background.index
    found = predict(classifier.model, bags, classifier.device)
    return ClassifiedBags(bags, tuple(map(str, classifier.classes)), *found, index, source)


# ---------------------------------------------------------------------- which figures come first


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
