"""How accurate a classifier is, from the answers for a few instances that were drawn by a known design.

Ten strata: all instances in the order of how likely each prediction is to be right, cut where the expected standard
deviation of an error adds up alike. Each stratum gives as many instances, at random and without replacement: doubtful
predictions are drawn more often than sure ones, with known probabilities, so that no figure rests on the classifier.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.stats import beta

from .audit_interval import CONFIDENCE, error_interval

STRATA = 10
LEAST_LABELS = 20
SOFTENED = 1.5  # temperature at which the classifier's probabilities order the instances
OF_LABEL = 0.3  # share of a bag that is expected to have its label, besides what the probabilities say
FLOOR = 0.1  # of the variance that is expected of an error: no prediction is taken for certain
TARGET = 0.03  # half-width of an interval that is thought good enough
TEMPERATURES = np.geomspace(0.2, 8, 60)  # that calibration chooses from
OTHER = "another class"  # than those of the classifier
CAUTION = 1.5  # a temperature is chosen as far as the evidence exceeds so many times its own variance


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


class Sample(NamedTuple):
    """The answers, and what is known of all instances."""

    classes: tuple[str, ...]
    stratum: np.ndarray  # (m,) of each answered instance
    true: np.ndarray  # (m,) class; C: another than those of the classifier
    probabilities: np.ndarray  # (m, C)
    sizes: np.ndarray  # (H,) instances in each stratum
    expected: np.ndarray  # (H,) share of errors that is expected there
    predicted_shares: np.ndarray  # (C,) of all instances
    mean_probabilities: np.ndarray  # (C,)
    mean_confidences: np.ndarray  # (T,) at each of TEMPERATURES

    @property
    def predicted(self) -> np.ndarray:
        return np.asarray(self.probabilities.argmax(axis=1))

    @property
    def weights(self) -> np.ndarray:  # (m,) sum 1
        """What share of all instances each answer stands for."""
        answers = np.bincount(self.stratum, minlength=len(self.sizes))
        return np.asarray((self.sizes / self.sizes.sum() / answers)[self.stratum])

    @property
    def variance_of_one(self) -> float:
        """What an unseen answer adds to a variance: without it, answers that all agree would leave no doubt."""
        return float(self.weights.max() ** 2 / 4)

    def with_answered_strata(self) -> Sample:
        """Join each stratum without an answer to the next one below that has some, or else above."""
        answered = np.flatnonzero(np.bincount(self.stratum, minlength=len(self.sizes)))
        target = np.maximum(np.searchsorted(answered, np.arange(len(self.sizes)), side="right") - 1, 0)
        joined = np.bincount(target, self.sizes).astype(np.int64)
        rates = np.bincount(target, self.sizes * self.expected) / joined
        return self._replace(stratum=target[self.stratum], sizes=joined, expected=rates)


@dataclass(frozen=True)
class Estimate:
    """
    >>> print(Estimate(0.9, 0.85, 0.934, 50))
    0.900 (0.850 to 0.934)
    """

    value: float
    low: float
    high: float
    labels: int  # answers that it is from

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


@dataclass(frozen=True)
class ClassFigures:
    name: str
    share: Estimate  # of all instances
    naive_share: float  # that the classifier counts
    recall: Estimate | None  # None: no answer says anything
    precision: Estimate | None


@dataclass(frozen=True)
class Confusion:
    true: str
    predicted: str
    share: Estimate  # of all instances


@dataclass(frozen=True)
class AuditFigures:
    labels: int
    accuracy: Estimate
    overconfidence: Estimate  # mean confidence minus accuracy
    temperature: float
    further_labels: int  # that bring the interval of the accuracy to +-.03
    classes: tuple[ClassFigures, ...]
    other_share: Estimate  # of all other classes
    confusions: tuple[Confusion, ...]  # that occur at least twice among the answers


def estimate(sample: Sample) -> AuditFigures:
    """All figures of an audit."""
    sample = sample.with_answered_strata()
    accuracy, weights, m = accuracy_of(sample), sample.weights, len(sample.true)
    true, predicted = sample.true, sample.predicted
    right, everything = true == predicted, np.ones(m, bool)
    *shares, other = class_shares(sample)
    names = (*sample.classes, OTHER)
    pairs, counts = np.unique(np.stack([true, predicted], axis=1)[~right], axis=0, return_counts=True)
    mean = float(np.interp(1, TEMPERATURES, sample.mean_confidences))
    needed = int(np.ceil(m * (((accuracy.high - accuracy.low) / 2 / TARGET) ** 2 - 1) / 10) * 10)
    return AuditFigures(
        labels=m,
        accuracy=accuracy,
        overconfidence=Estimate(mean - accuracy.value, mean - accuracy.high, mean - accuracy.low, m),
        temperature=fit_temperature(sample),
        further_labels=max(0, min(needed, int(sample.sizes.sum()) - m)),
        classes=tuple(
            ClassFigures(
                name,
                shares[c],
                float(sample.predicted_shares[c]),
                recall=_share(right, weights, true == c) if (true == c).any() else None,
                precision=_share(right, weights, predicted == c) if (predicted == c).any() else None,
            )
            for c, name in enumerate(sample.classes)
        ),
        other_share=other,
        confusions=tuple(
            Confusion(names[t], names[p], _share((true == t) & (predicted == p), weights, everything))
            for t, p in pairs[counts > 1].tolist()
        ),
    )


def accuracy_of(sample: Sample) -> Estimate:
    """The accuracy of all instances, and its interval."""
    wrong, h = sample.true != sample.predicted, len(sample.sizes)
    labels = np.bincount(sample.stratum, minlength=h)
    errors = np.bincount(sample.stratum, wrong, minlength=h).astype(np.int64)
    ((low, high),) = error_interval(errors[None], labels, sample.sizes, sample.expected)
    value = 1 - float(sample.weights @ wrong)
    return Estimate(value, min(1 - float(high), value), max(1 - float(low), value), len(wrong))


def _share(part: np.ndarray, weights: np.ndarray, whole: np.ndarray) -> Estimate:
    """The weighted share, and the interval of Clopper and Pearson for as many answers as the weights are worth."""
    of = weights[whole]
    value, worth = float(weights[whole & part].sum() / of.sum()), float(of.sum() ** 2 / (of**2).sum())
    low, high = exact_interval_of(value, worth)
    return Estimate(value, low, high, int(whole.sum()))


def exact_interval_of(share: float, labels: float) -> tuple[float, float]:
    """The interval of Clopper and Pearson; the number of labels need not be whole.

    >>> low, high = exact_interval_of(0.5, 10)
    >>> round(low, 3), round(high, 3)
    (0.187, 0.813)
    """
    tail, right = (1 - CONFIDENCE) / 2, share * labels
    low = 0.0 if share == 0 else float(beta.ppf(tail, right, labels - right + 1))
    high = 1.0 if share == 1 else float(beta.ppf(1 - tail, right + 1, labels - right))
    return low, high


def class_shares(sample: Sample) -> tuple[Estimate, ...]:
    """The share of each class: the mean probability, corrected by what the answers say of the probabilities.

    The correction is a sum of weighted differences, so that it has no bias; the sum of its squared terms is its
    variance. It is trusted as far as it exceeds its own standard deviation: without evidence the share is that of the
    classifier. The interval is that of the uncorrected sum of both, and holds without this shrinkage. The last share is
    that of all other classes.
    """
    weights = sample.weights
    mean, naive, probabilities = (
        np.append(of, np.zeros((*of.shape[:-1], 1)), axis=-1)
        for of in (sample.mean_probabilities, sample.predicted_shares, sample.probabilities)
    )
    differences = np.eye(len(mean))[sample.true] - probabilities
    variance = (weights**2) @ differences**2 + sample.variance_of_one
    unbiased = mean + weights @ differences
    values = np.clip(naive + _trust(unbiased - naive, variance) * (unbiased - naive), 0, 1)
    values /= values.sum()
    spread = 1.96 * np.sqrt(variance)
    low, high = (np.clip(np.clip(unbiased, 0, 1) + sign * spread, 0, 1) for sign in (-1, 1))
    ends = zip(values, np.minimum(low, values), np.maximum(high, values), strict=True)
    return tuple(Estimate(float(v), float(a), float(b), len(sample.true)) for v, a, b in ends)


def _trust(correction: np.ndarray, variance: np.ndarray) -> float:
    """How much of a correction is likely to be true, from 0 to 1, by the rule of James and Stein."""
    return max(0.0, 1 - float(variance.sum() / max((correction**2).sum(), 1e-12)))


# ---------------------------------------------------------------------- calibration


def fit_temperature(sample: Sample) -> float:
    """The temperature at which the mean confidence of all instances is the accuracy, as far as the answers show that
    it is another one."""
    right, weights = sample.true == sample.predicted, sample.weights
    accuracy = weights @ right
    variance = weights**2 @ (right - accuracy) ** 2 + sample.variance_of_one
    confidence = np.interp(1, TEMPERATURES, sample.mean_confidences)
    trust = _trust(accuracy - confidence, CAUTION * variance)
    wanted = confidence + trust * (accuracy - confidence)
    return float(np.interp(wanted, sample.mean_confidences[::-1], TEMPERATURES[::-1])) if trust else 1.0


def mean_confidences(probabilities: np.ndarray) -> np.ndarray:  # (n, C) -> (T,)
    """The mean probability of the predicted class at each of TEMPERATURES."""
    return np.array([with_temperature(probabilities, float(t)).max(axis=1).mean() for t in TEMPERATURES])


def with_temperature(probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """
    >>> with_temperature(np.array([[0.8, 0.2]]), 2.0).round(3).tolist()
    [[0.667, 0.333]]
    """
    logs = np.log(np.clip(probabilities, 1e-12, None)) / temperature
    return np.asarray(np.exp(logs - np.logaddexp.reduce(logs, axis=1)[:, None]), probabilities.dtype)
