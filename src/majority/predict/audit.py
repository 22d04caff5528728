"""How accurate a classifier is, from the answers for a few instances that were drawn by a known design."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import beta

from .audit_design import TEMPERATURES, Whole
from .audit_figures import OTHER, TARGET, AuditFigures, ClassFigures, Confusion, Estimate
from .audit_interval import CONFIDENCE, error_interval

CAUTION = 1.5  # a temperature is chosen as far as the evidence exceeds so many times its own variance


class Sample(NamedTuple):
    """The answers; a stratum without an answer is joined to the next one below that has some, or else above."""

    whole: Whole
    stratum: np.ndarray  # (m,) of each answered instance
    sizes: np.ndarray  # (H,) instances in each stratum
    expected: np.ndarray  # (H,) share of errors that is expected there
    true: np.ndarray  # (m,) class; C: another than those of the classifier
    probabilities: np.ndarray  # (m, C)

    @classmethod
    def of(cls, whole: Whole, stratum: np.ndarray, true: np.ndarray, probabilities: np.ndarray) -> Sample:
        given = np.array(whole.sizes)
        answered = np.unique(stratum)
        target = np.maximum(np.searchsorted(answered, np.arange(len(given)), side="right") - 1, 0)
        sizes = np.bincount(target, given).astype(np.int64)
        rates = np.bincount(target, given * np.array(whole.expected)) / sizes
        return cls(whole, target[stratum], sizes, rates, true, probabilities)

    @property
    def predicted(self) -> np.ndarray:
        return np.asarray(self.probabilities.argmax(axis=1))

    @property
    def weights(self) -> np.ndarray:  # (m,) sum 1
        """What share of all instances each answer stands for."""
        return np.asarray((self.sizes / self.sizes.sum() / np.bincount(self.stratum))[self.stratum])

    @property
    def variance_of_one(self) -> float:
        """What an unseen answer adds to a variance: without it, answers that all agree would leave no doubt."""
        return float(self.weights.max() ** 2 / 4)


def estimate(sample: Sample) -> AuditFigures:
    """All figures of an audit."""
    accuracy, weights, m = accuracy_of(sample), sample.weights, len(sample.true)
    true, predicted = sample.true, sample.predicted
    right, everything = true == predicted, np.ones(m, bool)
    *shares, other = class_shares(sample)
    names, whole = (*sample.whole.classes, OTHER), sample.whole
    pairs, counts = np.unique(np.stack([true, predicted], axis=1)[~right], axis=0, return_counts=True)
    mean = float(np.interp(1, TEMPERATURES, sample.whole.mean_confidences))
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
                whole.predicted_shares[c],
                recall=_share(right, weights, true == c) if (true == c).any() else None,
                precision=_share(right, weights, predicted == c) if (predicted == c).any() else None,
            )
            for c, name in enumerate(whole.classes)
        ),
        other_share=other,
        confusions=tuple(
            Confusion(names[t], names[p], _share((true == t) & (predicted == p), weights, everything))
            for t, p in pairs[counts > 1].tolist()
        ),
    )


def accuracy_of(sample: Sample) -> Estimate:
    """The accuracy of all instances, and its interval."""
    wrong = sample.true != sample.predicted
    errors = np.bincount(sample.stratum, wrong).astype(np.int64)
    ((low, high),) = error_interval(errors[None], np.bincount(sample.stratum), sample.sizes, sample.expected)
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
    mean, naive = (np.append(of, 0) for of in (sample.whole.mean_probabilities, sample.whole.predicted_shares))
    probabilities = np.pad(sample.probabilities, ((0, 0), (0, 1)))
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
    confidence = np.interp(1, TEMPERATURES, sample.whole.mean_confidences)
    trust = _trust(accuracy - confidence, CAUTION * variance)
    wanted = confidence + trust * (accuracy - confidence)
    return float(np.interp(wanted, sample.whole.mean_confidences[::-1], TEMPERATURES[::-1])) if trust else 1.0
