"""Statistics over folds: mean and deviation, and paired differences with intervals for overlapping training sets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any, NamedTuple

CONFIDENCE = 0.95
FOLDS = 5  # of the benchmark sets
NOT_TRAINED_ON = 2  # parts of a fold: one for testing, one for validation


class Spread(NamedTuple):
    mean: float
    sd: float | None  # over folds; None for one fold
    n: int  # folds


class Difference(NamedTuple):
    mean: float
    sd: float | None  # of the differences of the folds
    low: float | None  # ends of the interval; None for one fold
    high: float | None
    n: int
    p: float | None = None  # two-sided, of the t statistic of the interval; None for one fold or equal differences


def mean_by_fold(results: list[dict[str, Any]], figure: str, part: str = "test") -> dict[int, float]:
    """The mean of a figure over the runs (seeds) of each fold in which it is defined."""
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
    ours: dict[int, float], theirs: dict[int, float], held_out_ratio: float = 1 / (FOLDS - NOT_TRAINED_ON)
) -> Difference | None:
    """Ours minus theirs over the folds that both have; None if there is no such fold.

    The interval is that of Nadeau and Bengio: the variance of the mean is (1/J + test/train) s², not s²/J, because the
    training sets of J folds overlap.
    """
    differences = spread([ours[fold] - theirs[fold] for fold in ours if fold in theirs])
    if differences is None:
        return None
    mean, sd, n = differences
    if sd is None:
        return Difference(mean, None, None, None, n)
    from scipy.special import stdtr, stdtrit  # here, because every process of a study imports this module

    error = math.sqrt((1 / n + held_out_ratio) * sd**2)
    half_width = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2)) * error
    p = 2 * float(stdtr(n - 1, -abs(mean) / error)) if error else None
    return Difference(mean, sd, mean - half_width, mean + half_width, n, p)


def holm(p_values: Sequence[float]) -> list[float]:
    """Each p-value corrected by Holm's method for all of them: the smallest times their number, the next times one
    less, and so on, never below an earlier one.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    corrected, highest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = highest
    return corrected


def held_out_ratio(results: list[dict[str, Any]]) -> float:
    """Test instances per training instance: of K parts, one is for testing, one for validation, the others train."""
    data: dict[str, Any] = next((result["data"] for result in results if result.get("data")), {})
    return 1 / ((data.get("folds") or FOLDS) - NOT_TRAINED_ON)
