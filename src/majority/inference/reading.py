"""What a report is made of: one pass of a run's classifier over its bags, and the bags in the order shown."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from ..data.background import lead_of, majority_of
from ..data.bags import Bags
from ..data.instance_labels import UNKNOWN
from .classifier import Classifier
from .evaluate import all_batches, calibrate, outputs
from .metrics import CALIBRATION_BINS, Outcome
from .prediction_files import instance_ids


@dataclass(frozen=True)
class Reading:
    """Bags and what the classifier made of them."""

    bags: Bags
    classes: tuple[str, ...]
    predicted: np.ndarray  # (b,) by the method's aggregation
    counts: np.ndarray  # (b, C) instances predicted as each class
    guess: np.ndarray  # (n,) predicted class of each instance
    confidence: np.ndarray  # (n,) its probability
    background: int | None = None  # a class that does not vote
    opened: object = None  # the source of the bags, where it is known

    @property
    def right(self) -> np.ndarray:  # (b,)
        return self.predicted == self.bags.labels

    @cached_property
    def counted(self) -> np.ndarray:  # (b,) by the instance predictions
        return majority_of(self.counts, self.background)

    @cached_property
    def lead(self) -> tuple[np.ndarray, np.ndarray]:  # (b,) share of the counted majority, and its margin
        return lead_of(self.counts, self.background)

    @cached_property
    def order(self) -> np.ndarray:
        """Bag numbers: wrong bags first, in each half those with the smallest share of their label first; without
        labels those with the smallest margin first."""
        if not self.bags.labelled:
            return np.lexsort(self.lead)
        share = self.counts[np.arange(len(self.bags)), self.bags.labels] / self.bags.sizes
        return np.lexsort((share, self.right))

    def instances_of(self, bag: int) -> np.ndarray:
        return np.arange(self.bags.offsets[bag], self.bags.offsets[bag + 1])

    def bag_name(self, bag: int) -> str:
        return str(bag if self.bags.names is None else self.bags.names[bag])

    def instance_name(self, i: int) -> str:
        """As predictions are written: its path, or its number."""
        kind, (own,) = instance_ids(self.bags, np.array([i]), self.opened)
        return str(own) if kind == "path" else f"{kind} {own}"

    @property
    def true_classes(self) -> tuple[str, ...]:
        """Those of the classifier, then those that only instances have."""
        return (*self.classes, *self.bags.true_classes[len(self.classes) :])

    def truth(self, i: int) -> str | None:
        """The true class of an instance, None where it is not known."""
        labels = self.bags.instance_labels
        return None if labels is None or labels[i] == UNKNOWN else self.true_classes[labels[i]]

    def wrong_instances(self) -> np.ndarray:  # (n,) False where the truth is not known
        truth = self.bags.instance_labels
        return np.zeros(len(self.guess), bool) if truth is None else (truth != UNKNOWN) & (self.guess != truth)

    def confusion(self) -> np.ndarray:  # (true classes, true classes)
        """Of the instances whose class is known, true by predicted class; where none is, of bags, label by predicted
        class."""
        n, truth = len(self.true_classes), self.bags.instance_labels
        true, guess = (self.bags.labels, self.predicted) if truth is None else (truth, self.guess)
        return np.bincount((true * n + guess)[true != UNKNOWN], minlength=n * n).reshape(n, n)

    def outcome(self) -> Outcome:
        """What `inference.evaluate` would find in a pass of its own."""
        bags, truth = self.bags, self.bags.instance_labels
        labels = bags.labels if bags.labelled else None
        if truth is None:
            return Outcome(labels, self.predicted, self.counts, background=self.background)
        table = torch.zeros(CALIBRATION_BINS, 3, dtype=torch.float64)
        calibrate(table, *map(torch.from_numpy, (self.confidence, self.guess == truth, truth != UNKNOWN)))
        known = bags.class_counts(), self.confusion(), table.numpy()
        return Outcome(labels, self.predicted, self.counts, *known, self.background)


def read(classifier: Classifier, bags: Bags, opened=None) -> Reading:
    classifier.model.spec.check(bags.store)
    classes = tuple(map(str, classifier.classes))
    predicted, guesses, confidences = [], [], []
    for _, output in outputs(classifier.model, all_batches(bags, classifier.device)):
        confidence, guess = output.instance_log_probs.max(dim=1)
        predicted.append(output.bag_log_probs.argmax(dim=1).cpu().numpy())
        guesses.append(guess.cpu().numpy())
        confidences.append(confidence.exp().float().cpu().numpy())
    guess = np.concatenate(guesses)
    cells = np.bincount(bags.ids * len(classes) + guess, minlength=len(bags) * len(classes))
    counts = cells.reshape(len(bags), len(classes))
    background = classifier.model.spec.background
    index = None if background is None else background.index
    return Reading(bags, classes, np.concatenate(predicted), counts, guess, np.concatenate(confidences), index, opened)
