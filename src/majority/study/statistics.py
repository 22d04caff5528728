"""Figures over folds: mean and deviation, and paired differences with intervals that know of shared training data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import NamedTuple

from scipy.special import stdtrit

CONFIDENCE = 0.95
FOLDS = 5  # of benchmark sets
NOT_TRAINED_ON = 2  # parts of a fold: one tests, one validates


class Spread(NamedTuple):
    mean: float
    sd: float | None  # over folds; None for one fold
    n: int  # folds


class Difference(NamedTuple):
    mean: float
    sd: float | None  # of the folds' differences
    low: float | None  # the interval; None for one fold
    high: float | None
    n: int


def by_fold(results: list[dict], figure: str, part: str = "test") -> dict[int, float]:
    """A figure's mean over the runs (seeds) of each fold in which it is defined."""
    values: dict[int, list[float]] = {}
    for result in results:
        value = (result.get(part) or {}).get(figure)
        if value is not None:
            values.setdefault(result.get("fold", 0), []).append(value)
    return {fold: fmean(values[fold]) for fold in sorted(values)}


def spread(values: Sequence[float]) -> Spread | None:
    """
    >>> spread([0.25, 0.75]).mean, spread([0.5]).sd
    (0.5, None)
    """
    if not values:
        return None
    return Spread(fmean(values), stdev(values) if len(values) > 1 else None, len(values))


def paired_difference(
    ours: dict[int, float], theirs: dict[int, float], share_tested: float = 1 / (FOLDS - NOT_TRAINED_ON)
) -> Difference | None:
    """Ours minus theirs over the folds that both have.

    The interval is Nadeau and Bengio's: the variance of the mean is (1/J + test/train) s², not s²/J, because the
    training sets of J folds overlap.
    """
    of_folds = spread([ours[fold] - theirs[fold] for fold in ours if fold in theirs])
    if of_folds is None:
        return None
    mean, sd, n = of_folds
    if sd is None:
        return Difference(mean, None, None, None, n)
    reach = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2)) * math.sqrt((1 / n + share_tested) * sd**2)
    return Difference(mean, sd, mean - reach, mean + reach, n)


def share_tested(results: list[dict]) -> float:
    """Test instances for each training instance: of K parts one tests, one validates, the others train."""
    data = next((result["data"] for result in results if result.get("data")), {})
    return 1 / ((data.get("folds") or FOLDS) - NOT_TRAINED_ON)
