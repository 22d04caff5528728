"""Which instances an audit draws, and what it knows of all of them before any answer.

Ten strata: all instances in the order of how likely each prediction is to be right, cut where the expected standard
deviation of an error adds up alike. Each stratum gives as many instances, at random and without replacement: doubtful
predictions are drawn more often than sure ones, with known probabilities, so that no figure rests on the classifier.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

STRATA = 10
LEAST_LABELS = 20
SOFTENED = 1.5  # temperature at which the classifier's probabilities order the instances
OF_LABEL = 0.3  # share of a bag that is expected to have its label, besides what the probabilities say
FLOOR = 0.1  # of the variance that is expected of an error: no prediction is taken for certain
TEMPERATURES = np.geomspace(0.2, 8, 60)  # that calibration chooses from


def expected_right(
    probabilities: np.ndarray,  # (n, C)
    bag_ids: np.ndarray,  # (n,) numbers from 0
    bag_labels: np.ndarray | None = None,  # (b,) class, -1 if unknown
) -> np.ndarray:  # (n,)
    """How likely each prediction is to be right, by the classifier, the other instances of its bag and the bag's label.

    It is the probability of the predicted class after the mean probabilities of all instances are replaced by those of
    the bag, to which its label is added. Only the width of intervals depends on it.

    >>> likely = expected_right(np.array([[0.6, 0.4], [0.6, 0.4]]), np.array([0, 1]), np.array([0, 1]))
    >>> bool(likely[0] > 0.6 > likely[1])
    True
    """
    probabilities = with_temperature(probabilities, SOFTENED)
    shares = np.zeros((bag_ids.max() + 1, probabilities.shape[1]))
    np.add.at(shares, bag_ids, probabilities)
    shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1e-12)
    if bag_labels is not None:
        known = np.flatnonzero(bag_labels >= 0)
        shares[known] *= 1 - OF_LABEL
        shares[known, bag_labels[known]] += OF_LABEL
    in_bag = probabilities * (shares / np.maximum(shares[bag_ids].mean(axis=0), 1e-9))[bag_ids]
    in_bag /= np.maximum(in_bag.sum(axis=1, keepdims=True), 1e-12)
    return np.asarray(np.clip(in_bag[np.arange(len(probabilities)), probabilities.argmax(axis=1)], 0.001, 0.999))


@dataclass(frozen=True)
class Design:
    """Which instances are labelled first: any number of labels is a sample of the same design."""

    stratum: np.ndarray  # (n,) of each instance
    expected: np.ndarray  # (H,) share of errors that is expected in each stratum
    seed: int = 0

    @classmethod
    def of(cls, right: np.ndarray, seed: int = 0) -> Design:
        """Strata of equal sums of the standard deviation that is expected of an error."""
        order = np.argsort(right, kind="stable")
        spread = np.sqrt(right * (1 - right) + FLOOR)[order]
        middles = np.cumsum(spread) - spread / 2
        numbers = np.empty(len(right), np.int64)
        numbers[order] = np.minimum(STRATA * middles / spread.sum(), STRATA - 1).astype(np.int64)
        _, stratum = np.unique(numbers, return_inverse=True)
        return cls(stratum, 1 - np.bincount(stratum, right) / np.bincount(stratum), seed)

    @cached_property
    def sizes(self) -> np.ndarray:  # (H,) instances in each stratum
        return np.bincount(self.stratum)

    def draw(self, labels: int) -> np.ndarray:  # (labels,) instances
        """The first so many instances, in the order in which they are drawn; more labels only add some.

        >>> design = Design.of(np.linspace(0.3, 0.99, 1000))
        >>> bool((design.draw(50) == design.draw(80)[:50]).all())
        True
        """
        rng = np.random.default_rng(self.seed)
        turn = np.empty(len(self.stratum), np.int64)  # in which round of the strata each instance is drawn
        for h, size in enumerate(self.sizes):
            turn[self.stratum == h] = rng.permutation(size)
        return np.lexsort((rng.permutation(len(self.sizes))[self.stratum], turn))[:labels]


@dataclass(frozen=True)
class Whole:
    """What is known of all instances before any answer."""

    classes: tuple[str, ...]
    sizes: tuple[int, ...]  # (H,) instances in each stratum
    expected: tuple[float, ...]  # (H,) share of errors that is expected there
    predicted_shares: tuple[float, ...]  # (C,)
    mean_probabilities: tuple[float, ...]  # (C,)
    mean_confidences: tuple[float, ...]  # (T,) at each of TEMPERATURES

    @classmethod
    def of(cls, classes: Iterable[str], design: Design, probabilities: np.ndarray) -> Whole:
        n, n_classes = probabilities.shape
        confidences = [with_temperature(probabilities, float(t)).max(axis=1).mean() for t in TEMPERATURES]
        return cls(
            tuple(classes),
            tuple(design.sizes.tolist()),
            tuple(design.expected.tolist()),
            tuple((np.bincount(probabilities.argmax(axis=1), minlength=n_classes) / n).tolist()),
            tuple(probabilities.mean(axis=0).tolist()),
            tuple(map(float, confidences)),
        )


def with_temperature(probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """
    >>> with_temperature(np.array([[0.8, 0.2]]), 2.0).round(3).tolist()
    [[0.667, 0.333]]
    """
    logs = np.log(np.clip(probabilities, 1e-12, None)) / temperature
    return np.asarray(np.exp(logs - np.logaddexp.reduce(logs, axis=1)[:, None]), probabilities.dtype)
