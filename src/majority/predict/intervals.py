"""Bootstrap intervals of figures. Whole bags are resampled, because the instances of a bag are not independent."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .metrics import CALIBRATION_BINS, confidence_bins
from .predictions import Predictions

CONFIDENCE = 0.95
RESAMPLES = 1_000
MAX_CELLS = 4_000_000  # of the tables of several resamples, in memory at a time

Interval = tuple[float, float]


def bootstrap(predictions: Predictions, resamples: int = RESAMPLES, seed: int = 0) -> dict[str, Interval]:
    """Percentile intervals of the figures over resamples of the bags, each with as many bags as there are.

    A figure that is not defined in some resamples, such as a share of bags with a runner-up, has the interval of the
    others. With one bag there are no intervals. Resamples of bags that are all right are all right, which is no
    certainty: a share of 0 or 1 has an exact binomial interval, and another figure that never changes has none.
    """
    if len(predictions.bags) < 2:
        return {}
    pieces = [_figures_of(predictions, weights) for weights in _resample(predictions, resamples, seed)]
    found, tail = dict[str, Interval](), (1 - CONFIDENCE) / 2
    for name in pieces[0]:
        values = np.concatenate([piece[name] for piece in pieces])
        low, high = np.nanquantile(values, [tail, 1 - tail]).tolist() if not np.isnan(values).all() else (0.5, 0.5)
        if low == high and name in predictions.ratios and name != "overestimation":  # which is no share
            low, high = exact_interval(low, int((predictions.ratios[name][1] > 0).sum()))
        if low != high:
            found[name] = (low, high)
    return found


def _resample(predictions: Predictions, resamples: int, seed: int) -> Iterator[np.ndarray]:  # (some resamples, b)
    """How often each bag is in each resample."""
    rng, bags = np.random.default_rng(seed), len(predictions.bags)
    step = max(1, MAX_CELLS // max(bags * 3 * CALIBRATION_BINS, len(predictions.true_classes)))
    for start in range(0, resamples, step):
        drawn = rng.integers(bags, size=(min(step, resamples - start), bags))
        rows = np.arange(len(drawn))[:, None]
        yield np.bincount((rows * bags + drawn).ravel(), minlength=drawn.size).reshape(drawn.shape).astype(np.float64)


def _figures_of(predictions: Predictions, weights: np.ndarray) -> dict[str, np.ndarray]:
    """(r, b) -> by name (r,), those of `Predictions.summary`.

    The share of the most frequent label is left out: it describes the bags, not the model.
    """
    if predictions.margins is None:
        return predictions.figures(weights, None)
    return predictions.figures(weights, (weights[:, :, None, None] * _calibration_of_bags(predictions)).sum(axis=1))


def _calibration_of_bags(predictions: Predictions) -> np.ndarray:  # (b, bins, 3)
    assert predictions.known is not None
    bag, true, predicted, confidence, _ = predictions.known
    cells, shape = bag * CALIBRATION_BINS + confidence_bins(confidence), (len(predictions.bags), CALIBRATION_BINS)
    columns = (np.ones(len(bag)), confidence, predicted == true)
    tables = [np.bincount(cells, column, minlength=shape[0] * shape[1]).reshape(shape) for column in columns]
    return np.stack(tables, axis=2)


def exact_interval(share: float, bags: int) -> Interval:
    """The interval of Clopper and Pearson for a share of 0 or 1 of independent bags; of another one, without width.

    >>> low, high = exact_interval(1.0, 6)
    >>> round(low, 3), high
    (0.541, 1.0)
    """
    bound = ((1 - CONFIDENCE) / 2) ** (1 / max(bags, 1))
    return {0.0: (0.0, 1 - bound), 1.0: (bound, 1.0)}.get(share, (share, share))
