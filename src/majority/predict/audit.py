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
from scipy.optimize import minimize_scalar
from scipy.stats import beta

from .audit_interval import error_interval

STRATA = 10
LEAST_LABELS = 20
FLOOR = 0.1  # of the variance that is expected of an error: no prediction is taken for certain
TARGET = 0.03  # half-width of an interval that is thought good enough
TEMPERATURE_SPREAD = 0.5  # of the logarithm of the temperature, before any answer
CONFIDENCE = 0.95

Interval = tuple[float, float]


def expected_right(
    probabilities: np.ndarray,  # (n, C)
    bag_ids: np.ndarray,  # (n,) numbers from 0
    bag_labels: np.ndarray | None = None,  # (b,) class, -1 if unknown
) -> np.ndarray:  # (n,)
    """How likely each prediction is to be right, by the classifier, the other instances of its bag and the bag's label.

    It is the probability of the predicted class after the mean probabilities of all instances are replaced by those of
    the bag, half of which its label has. Only the width of intervals depends on it.

    >>> likely = expected_right(np.array([[0.6, 0.4], [0.6, 0.4]]), np.array([0, 1]), np.array([0, 1]))
    >>> bool(likely[0] > 0.6 > likely[1])
    True
    """
    sums = np.zeros((bag_ids.max() + 1, probabilities.shape[1]))
    np.add.at(sums, bag_ids, probabilities)
    shares = sums / np.maximum(sums.sum(axis=1, keepdims=True), 1e-12)
    if bag_labels is not None:
        known = np.flatnonzero(bag_labels >= 0)
        shares[known] /= 2
        shares[known, bag_labels[known]] += 0.5
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

    @property
    def weights(self) -> np.ndarray:  # (H,) their shares
        return np.asarray(self.sizes / self.sizes.sum())

    def draw(self, labels: int) -> np.ndarray:  # (labels,) instances
        """The first so many instances, in the order in which they are drawn; more labels only add some.

        >>> design = Design.of(np.linspace(0.3, 0.99, 1000))
        >>> bool((design.draw(50) == design.draw(80)[:50]).all())
        True
        """
        rng = np.random.default_rng(self.seed)
        queues = [rng.permutation(np.flatnonzero(self.stratum == h)) for h in range(len(self.sizes))]
        order, taken, drawn = rng.permutation(len(queues)), np.zeros(len(queues), int), []
        for _ in range(min(labels, len(self.stratum))):
            waiting = [h for h in order if taken[h] < len(queues[h])]
            h = min(waiting, key=lambda h: taken[h])
            drawn.append(queues[h][taken[h]])
            taken[h] += 1
        return np.array(drawn, np.int64)


class Sample(NamedTuple):
    """The answers, and what is known of all instances."""

    stratum: np.ndarray  # (m,) of each answered instance
    true: np.ndarray  # (m,) class; C: another than those of the classifier
    probabilities: np.ndarray  # (m, C)
    sizes: np.ndarray  # (H,) instances in each stratum
    expected: np.ndarray  # (H,) share of errors that is expected there
    predicted_shares: np.ndarray  # (C,) of all instances
    mean_probabilities: np.ndarray  # (C,)
    mean_confidence: float

    @property
    def predicted(self) -> np.ndarray:
        return np.asarray(self.probabilities.argmax(axis=1))


class Estimate(NamedTuple):
    value: float
    low: float
    high: float
    labels: int  # answers that it is from


@dataclass(frozen=True)
class AuditFigures:
    answers: int
    accuracy: Estimate
    recall: tuple[Estimate | None, ...]  # of each class; None: no answer says anything
    precision: tuple[Estimate | None, ...]
    shares: tuple[Estimate, ...]  # the last one is that of all other classes
    naive_shares: tuple[float, ...]
    confusions: tuple[tuple[int, int, Estimate], ...]  # true, predicted, share of all instances
    overconfidence: Estimate  # mean confidence minus accuracy
    temperature: float
    further_labels: int  # that bring the interval of the accuracy to +-.03


def merge_empty(stratum: np.ndarray, sizes: np.ndarray, expected: np.ndarray) -> tuple[np.ndarray, ...]:
    """Join each stratum without an answer to the next one below that has some, or else above."""
    answered = np.flatnonzero(np.bincount(stratum, minlength=len(sizes)))
    target = np.maximum(np.searchsorted(answered, np.arange(len(sizes)), side="right") - 1, 0)
    joined = np.bincount(target, sizes, minlength=len(answered))
    rates = np.bincount(target, sizes * expected, minlength=len(answered)) / joined
    return target[stratum], joined, rates


def estimate(sample: Sample) -> AuditFigures:
    """All figures of an audit."""
    stratum, sizes, expected = merge_empty(sample.stratum, sample.sizes, sample.expected)
    sample = sample._replace(stratum=stratum, sizes=sizes, expected=expected)
    weights = instance_weights(sample)
    accuracy, classes = accuracy_of(sample), range(sample.probabilities.shape[1])
    true, predicted, right = sample.true, sample.predicted, sample.true == sample.predicted
    pairs = sorted({(int(t), int(p)) for t, p in zip(true[~right], predicted[~right], strict=True)})
    seen = [(t, p, (true == t) & (predicted == p)) for t, p in pairs]
    confusions = [(t, p, _share(where, weights, np.ones_like(right))) for t, p, where in seen if where.sum() > 1]
    half = (accuracy.high - accuracy.low) / 2
    needed = int(np.ceil(len(true) * ((half / TARGET) ** 2 - 1) / 10) * 10)
    mean = sample.mean_confidence
    return AuditFigures(
        len(true),
        accuracy,
        tuple(_share(right, weights, true == c) for c in classes),
        tuple(_share(right, weights, predicted == c) for c in classes),
        class_shares(sample),
        tuple(sample.predicted_shares.tolist()),
        tuple((t, p, found) for t, p, found in confusions if found is not None),
        Estimate(mean - accuracy.value, mean - accuracy.high, mean - accuracy.low, len(true)),
        fit_temperature(sample.probabilities, true, weights),
        max(0, min(needed, int(sample.sizes.sum()) - len(true))),
    )


def instance_weights(sample: Sample) -> np.ndarray:  # (m,) sum 1
    """What share of all instances each answer stands for."""
    answers = np.bincount(sample.stratum, minlength=len(sample.sizes))
    return np.asarray((sample.sizes / sample.sizes.sum() / answers)[sample.stratum])


def accuracy_of(sample: Sample) -> Estimate:
    """The accuracy of all instances, and its interval."""
    wrong, h = sample.true != sample.predicted, len(sample.sizes)
    labels = np.bincount(sample.stratum, minlength=h)
    errors = np.bincount(sample.stratum, wrong, minlength=h).astype(np.int64)
    shares = sample.sizes / sample.sizes.sum()
    ((low, high),) = error_interval(errors[None], labels, shares, sample.expected)
    value = 1 - float(errors / labels @ shares)
    return Estimate(value, min(1 - float(high), value), max(1 - float(low), value), len(wrong))


def _share(part: np.ndarray, weights: np.ndarray, whole: np.ndarray) -> Estimate | None:
    """The weighted share, and the interval of Clopper and Pearson for as many answers as the weights are worth."""
    if not whole.any():
        return None
    of = weights[whole]
    value, worth = float(weights[whole & part].sum() / of.sum()), float(of.sum() ** 2 / (of**2).sum())
    low, high = exact_interval_of(value, worth)
    return Estimate(value, low, high, int(whole.sum()))


def exact_interval_of(share: float, labels: float) -> Interval:
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
    classifier. The interval is that of the uncorrected sum of both, and holds without this shrinkage.
    """
    weights = instance_weights(sample)
    mean, naive, probabilities = (
        np.append(of, np.zeros((*of.shape[:-1], 1)), axis=-1)
        for of in (sample.mean_probabilities, sample.predicted_shares, sample.probabilities)
    )
    differences = np.eye(len(mean))[sample.true] - probabilities
    variance = (weights**2) @ differences**2 + weights.max() ** 2 * 0.25
    unbiased = mean + weights @ differences
    trust = max(0.0, 1 - variance.sum() / max(((unbiased - naive) ** 2).sum(), 1e-12))
    values = np.clip(naive + trust * (unbiased - naive), 0, 1)
    values /= values.sum()
    spread = 1.96 * np.sqrt(variance)
    low, high = (np.clip(np.clip(unbiased, 0, 1) + sign * spread, 0, 1) for sign in (-1, 1))
    ends = zip(values, np.minimum(low, values), np.maximum(high, values), strict=True)
    return tuple(Estimate(float(v), float(a), float(b), len(sample.true)) for v, a, b in ends)


def fit_temperature(probabilities: np.ndarray, true: np.ndarray, weights: np.ndarray) -> float:
    """The temperature by which the probability of the predicted class fits how often it is right; near 1 unless the
    answers say otherwise."""
    right = probabilities.argmax(axis=1) == true
    worth = weights.sum() ** 2 / (weights**2).sum()

    def loss(log_temperature: float) -> float:
        scaled = with_temperature(probabilities, float(np.exp(log_temperature)))
        confidence = np.clip(scaled.max(axis=1), 1e-4, 1 - 1e-4)
        logs = np.where(right, np.log(confidence), np.log(1 - confidence))
        return float(-worth * (weights @ logs) / weights.sum() + log_temperature**2 / 2 / TEMPERATURE_SPREAD**2)

    return float(np.exp(minimize_scalar(loss, bounds=(-3, 3), method="bounded").x))


def with_temperature(probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """
    >>> with_temperature(np.array([[0.8, 0.2]]), 2.0).round(3).tolist()
    [[0.667, 0.333]]
    """
    logs = np.log(np.clip(probabilities, 1e-12, None)) / temperature
    return np.asarray(np.exp(logs - np.logaddexp.reduce(logs, axis=1)[:, None]), probabilities.dtype)
