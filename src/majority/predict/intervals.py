"""Bootstrap intervals of figures. Whole bags are resampled, because the instances of a bag are not independent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .metrics import CALIBRATION_BINS, Margins, class_rates, confidence_bins
from .predictions import Predictions

CONFIDENCE = 0.95
RESAMPLES = 1_000
MAX_CELLS = 4_000_000  # of the tables of several resamples, in memory at a time

Interval = tuple[float, float]


class Intervals(NamedTuple):
    """The ends of the intervals: of each figure, and of precision, recall and F1 of each true class."""

    figures: dict[str, Interval]
    classes: dict[str, np.ndarray]  # by name: (T, 2), NaN if the figure is not defined for a class; empty: no instances


def bootstrap(predictions: Predictions, resamples: int = RESAMPLES, seed: int = 0) -> Intervals:
    """Percentile intervals over resamples of the bags, each with as many bags as there are.

    A figure that is not defined in some resamples, such as the recall of a class that is not drawn, has the interval of
    the others. With one bag there are no intervals. Resamples of bags that are all right are all right, which is no
    certainty: a share of 0 or 1 has an exact binomial interval, and another figure that never changes has none.
    """
    if len(predictions.bags) < 2:
        return Intervals({}, {})
    pieces = [_figures_of(predictions, weights) for weights in _resample(predictions, resamples, seed)]
    bags, found = _bags_of_shares(predictions), Intervals({}, {})
    for name in pieces[0]:
        ends = _interval(np.concatenate([piece[name] for piece in pieces]), bags.get(name))
        if ends.ndim == 2:
            found.classes[name.removeprefix("class ")] = ends
        elif not np.isnan(ends[0]):
            found.figures[name] = (float(ends[0]), float(ends[1]))
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
    """(r, b) -> by name (r,), or (r, T) for figures of classes: those of `Predictions.summary`.

    The share of the most frequent label is left out: it describes the bags, not the model.
    """
    if predictions.margins is None:
        return predictions.figures(weights, None)
    calibration = (weights[:, :, None, None] * _calibration_of_bags(predictions)).sum(axis=1)
    rates = class_rates(Margins(*(weights @ of_bags for of_bags in predictions.margins)))
    return predictions.figures(weights, calibration) | {f"class {name}": of_class for name, of_class in rates.items()}


def _calibration_of_bags(predictions: Predictions) -> np.ndarray:  # (b, bins, 3)
    assert predictions.known is not None
    bag, true, predicted, confidence, _ = predictions.known
    cells, shape = bag * CALIBRATION_BINS + confidence_bins(confidence), (len(predictions.bags), CALIBRATION_BINS)
    columns = (np.ones(len(bag)), confidence, predicted == true)
    tables = [np.bincount(cells, column, minlength=shape[0] * shape[1]).reshape(shape) for column in columns]
    return np.stack(tables, axis=2)


def _interval(values: np.ndarray, bags: np.ndarray | None) -> np.ndarray:  # (r, ...), (...) -> (..., 2)
    """One without width is the exact one of a share of 0 or 1 of so many bags, otherwise NaN."""
    tail = (1 - CONFIDENCE) / 2
    undefined = np.isnan(values).all(axis=0)
    ends = np.moveaxis(np.nanquantile(np.where(undefined, 0.0, values), [tail, 1 - tail], axis=0), 0, -1)
    low, high = ends[..., 0], ends[..., 1]
    exact = np.full(ends.shape, np.nan) if bags is None else exact_interval(low, bags)
    ends = np.where((low == high)[..., None], exact, ends)
    return np.where(undefined[..., None], np.nan, ends)


def exact_interval(share: np.ndarray, bags: np.ndarray) -> np.ndarray:  # (...), (...) -> (..., 2)
    """The interval of Clopper and Pearson for a share of 0 or 1 of independent bags; NaN for other shares.

    >>> exact_interval(np.array([1.0, 0.0]), np.array([6, 6])).round(3).tolist()
    [[0.541, 1.0], [0.0, 0.459]]
    """
    bound = ((1 - CONFIDENCE) / 2) ** (1 / np.maximum(bags, 1))
    low = np.select([share == 1, share == 0], [bound, 0.0], np.nan)
    high = np.select([share == 1, share == 0], [1.0, 1 - bound], np.nan)
    return np.stack([low, high], axis=-1)


def _bags_of_shares(predictions: Predictions) -> dict[str, np.ndarray]:
    """How many bags each figure is over that is a share of bags or instances. Of classes: (T,)."""
    bags = {name: (whole > 0).sum() for name, (_, whole) in predictions.ratios.items() if name != "overestimation"}
    if predictions.margins is not None:
        _, true, predicted = predictions.margins
        bags |= {"class precision": (predicted > 0).sum(axis=0), "class recall": (true > 0).sum(axis=0)}
    return {name: np.asarray(count) for name, count in bags.items()}
