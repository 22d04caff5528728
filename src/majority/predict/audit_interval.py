"""The interval of a share of errors that was sampled in strata.

A test is inverted: of each possible share of errors, how likely is an estimate as low, or as high, as the one found?
The exact distribution of the estimate is a sum of binomials with different weights. Which strata the errors are in
follows a curve: the logit of a stratum's error rate is `t + b * x`, where x is what the classifier expects. The slope b
is fitted to the answers and held near a cautious value; t moves with the share that is tested. So the interval has
width where no error was found, and a badly calibrated classifier makes it wide, not wrong. Where a good part of all
instances has an answer, it is narrowed by the part of the standard deviation that this leaves.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit

CONFIDENCE = 0.95
SLOPE, SLOPE_SPREAD = 0.8, 0.5  # 1: errors are where the classifier expects them; 0: everywhere alike
GRID = 1024  # points of the distribution of the estimate
STEPS = 15  # halvings of the search for an end
FURTHEST = 8.0  # an end is from the estimate, on the logit scale


def expected_logits(expected: np.ndarray, weights: np.ndarray) -> np.ndarray:  # (H,), (H,) -> (H,)
    """The logits of the expected error rate of each stratum, with a weighted mean of 0."""
    logits = logit(np.clip(expected, 0.02, 0.995))
    return np.asarray(logits - weights @ logits / weights.sum())


def fit_slope(errors: np.ndarray, labels: np.ndarray, logits: np.ndarray) -> np.ndarray:  # (R, H), (H,), (H,) -> (R,)
    """The most probable slope of each row: logistic regression with a normal prior, by Newton's method."""
    start = np.clip((errors.sum(axis=1) + 0.5) / (labels.sum() + 1), 0.01, 0.99)
    level, slope = logit(start), np.full(len(errors), SLOPE)
    for _ in range(25):
        rates = expit(level[:, None] + slope[:, None] * logits)
        variances = labels * rates * (1 - rates)
        of_level = (errors - labels * rates).sum(axis=1) - 0.5 * (expit(level) - 0.5)  # half an answer of each kind
        of_slope = (errors - labels * rates) @ logits - (slope - SLOPE) / SLOPE_SPREAD**2
        a, b, c = variances.sum(axis=1) + 0.125, variances @ logits, variances @ logits**2 + 1 / SLOPE_SPREAD**2
        determinant = a * c - b**2
        level += np.clip((c * of_level - b * of_slope) / determinant, -2, 2)
        slope += np.clip((a * of_slope - b * of_level) / determinant, -1, 1)
    return slope


def error_interval(
    errors: np.ndarray,  # (R, H) wrong answers in each stratum, of R samples
    labels: np.ndarray,  # (H,) answers in each stratum
    sizes: np.ndarray,  # (H,) instances in each stratum
    expected: np.ndarray,  # (H,) error rate that the classifier expects
    grid: int = GRID,
) -> np.ndarray:  # (R, 2)
    """The ends of the interval of the share of errors among all instances, of each sample.

    With one large stratum it is the interval of Clopper and Pearson with mid-p:

    >>> few = np.array([[0], [2]])
    >>> error_interval(few, np.array([50]), np.array([10**6]), np.array([0.1])).round(3).tolist()
    [[0.0, 0.058], [0.007, 0.126]]
    """
    weights = sizes / sizes.sum()
    steps = _grid_steps(labels, weights, grid)
    found, logits = errors @ steps, expected_logits(expected, weights)
    slope, tail = fit_slope(errors, labels, logits), (1 - CONFIDENCE) / 2
    centre = logit((errors.sum(axis=1) + 0.5) / (labels.sum() + 1))
    ends = np.empty((len(errors), 2))
    for side in (0, 1):
        low, high = centre - FURTHEST, centre + FURTHEST
        for _ in range(STEPS):
            middle = (low + high) / 2
            below, at = _tail(expit(middle[:, None] + slope[:, None] * logits), labels, steps, grid, found)
            smaller = (1 - below - at / 2) < tail if side == 0 else (below + at / 2) > tail
            low, high = np.where(smaller, middle, low), np.where(smaller, high, middle)
        ends[:, side] = expit(low[:, None] + slope[:, None] * logits) @ weights
    ends[errors.sum(axis=1) == 0, 0] = 0.0
    ends[errors.sum(axis=1) == labels.sum(), 1] = 1.0
    rates = expit(centre[:, None] + slope[:, None] * logits)
    variances = weights**2 * rates * (1 - rates) / labels
    left = np.sqrt(variances @ (1 - labels / sizes) / variances.sum(axis=1))[:, None]
    estimates = (errors @ (weights / labels))[:, None]
    return np.asarray(estimates + left * (ends - estimates))


def _grid_steps(labels: np.ndarray, weights: np.ndarray, grid: int) -> np.ndarray:  # (H,)
    """How many points of the grid one error of each stratum counts."""
    per_error = weights / labels
    steps = np.maximum(np.round(per_error * (grid - 1 - len(labels) * labels.max() / 2) / weights.sum()), 1).astype(int)
    return np.asarray(steps)


def _tail(
    rates: np.ndarray, labels: np.ndarray, steps: np.ndarray, grid: int, found: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:  # (R,), (R,)
    """The probability of an estimate below the one found, and of this one, where strata have these error rates."""
    turns = np.arange(grid // 2 + 1)
    transform = np.ones((len(rates), len(turns)), complex)
    for number in np.unique(labels):
        product = np.ones_like(transform)
        for h in np.flatnonzero(labels == number):
            product *= 1 + rates[:, h, None] * (np.exp(-2j * np.pi * turns * steps[h] / grid) - 1)
        transform *= product ** int(number)
    masses = np.maximum(np.fft.irfft(transform, grid, axis=1), 0)
    rows = np.arange(len(rates))
    at = masses[rows, found]
    return np.cumsum(masses, axis=1)[rows, found] - at, at
