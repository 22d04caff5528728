"""Bootstrap intervals of figures. Whole bags are resampled, because the instances of a bag are not independent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .metrics import CALIBRATION_BINS, Outcome, background_rates, calibration_errors, class_rates, confusion_rates

CONFIDENCE = 0.95
RESAMPLES = 1_000
MAX_CELLS = 4_000_000  # of the confusion matrices of several resamples, in memory at a time

Interval = tuple[float, float]


class Intervals(NamedTuple):
    """The ends of the intervals: of each figure, and of precision, recall and F1 of each true class."""

    figures: dict[str, Interval]
    classes: dict[str, np.ndarray]  # by name: (T, 2), NaN if the figure is not defined for a class; empty: no instances


def bootstrap(outcome: Outcome, resamples: int = RESAMPLES, seed: int = 0) -> Intervals:
    """Percentile intervals over resamples of the bags, each with as many bags as there are.

    A figure that is not defined in some resamples, such as the recall of a class that is not drawn, has the interval of
    the others. With one bag there are no intervals. Resamples of bags that are all right are all right, which is no
    certainty: a share of 0 or 1 has an exact binomial interval, and another figure that never changes has none.
    """
    if len(outcome.hard_counts) < 2:
        return Intervals({}, {})
    pieces = [_figures_of(outcome, weights) for weights in _resample(outcome, resamples, seed)]
    draws = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    units = _bags_of_shares(outcome)
    ends = {name: _with_width(_interval(values), units.get(name)) for name, values in draws.items()}
    classes = {name.removeprefix("class "): value for name, value in ends.items() if name.startswith("class ")}
    figures = {name: (float(value[0]), float(value[1])) for name, value in ends.items() if value.ndim == 1}
    return Intervals({name: value for name, value in figures.items() if not np.isnan(value[0])}, classes)


def _resample(outcome: Outcome, resamples: int, seed: int) -> Iterator[np.ndarray]:  # (some resamples, b)
    """How often each bag is in each resample."""
    rng, bags = np.random.default_rng(seed), len(outcome.hard_counts)
    cells = bags if outcome.confusion is None else max(bags, outcome.confusion.size)
    step = max(1, MAX_CELLS // cells)
    for start in range(0, resamples, step):
        drawn = rng.integers(bags, size=(min(step, resamples - start), bags))
        rows = np.arange(len(drawn))[:, None]
        yield np.bincount((rows * bags + drawn).ravel(), minlength=drawn.size).reshape(drawn.shape).astype(np.float64)


def _figures_of(outcome: Outcome, weights: np.ndarray) -> dict[str, np.ndarray]:
    """(r, b) -> by name (r,), or (r, T) for figures of classes: those of `Outcome.summary`.

    The share of the most frequent label is left out: it describes the bags, not the model.
    """
    figures: dict[str, np.ndarray] = {}
    counts = outcome.hard_counts
    if outcome.labels is not None:
        labelled, right = outcome.labels.known, outcome.labels.allows(outcome.predicted)
        counted = outcome.counted
        figures |= {
            "bag_accuracy": _share(weights, outcome.labels.allows(counted), labelled),
            "method_bag_accuracy": _share(weights, right, labelled),
            "consistency_rate": _share(weights, counted == outcome.predicted, right),
        }
        if outcome.ranked is not None:
            figures["runner_up_accuracy"] = _share(weights, outcome.runner_up_right, outcome.ranked)
    if outcome.background is not None:
        figures["background_share"] = _share(weights, counts[:, outcome.background], counts.sum(axis=1))
    if outcome.known is None or outcome.confusion is None or outcome.true_counts is None:
        return figures
    known, n_true = outcome.known, len(outcome.confusion)
    confusion = _sums(weights, known.bag, known.true * n_true + known.predicted, n_true**2)
    confusion = confusion.reshape(-1, n_true, n_true)
    figures |= confusion_rates(confusion)
    figures["calibration_error"] = calibration_errors(_calibration_sums(weights, known))
    if outcome.background is not None:
        figures |= background_rates(confusion, outcome.background)
    full = outcome.true_counts.sum(axis=1) == counts.sum(axis=1)
    full = full if outcome.labels is None else full & outcome.labels.named
    if outcome.labels is not None and full.any():
        bags, labels = np.arange(len(counts)), outcome.labels.winners
        surplus = counts[bags, labels] - outcome.true_counts[bags, labels]
        figures["overestimation"] = _share(weights, surplus * full, full)
    return figures | {f"class {name}": rates for name, rates in class_rates(confusion).items()}


def _calibration_sums(weights: np.ndarray, known: Any) -> np.ndarray:  # (r, bins, 3)
    columns = (None, known.confidence, (known.predicted == known.true).astype(np.float64))
    return np.stack([_sums(weights, known.bag, known.bins, CALIBRATION_BINS, column) for column in columns], axis=2)


def _sums(
    weights: np.ndarray, bag: np.ndarray, cell: np.ndarray, n_cells: int, values: np.ndarray | None = None
) -> np.ndarray:  # (r, cells)
    """The sum of the values of the instances in each cell, where each instance counts as often as its bag."""
    from scipy.sparse import csr_array

    ones = np.ones(len(bag)) if values is None else values.astype(np.float64)
    by_bag = csr_array((ones, (bag, cell)), shape=(weights.shape[1], n_cells))  # entries of the same place are added
    return np.asarray((by_bag.T @ weights.T).T)


def _share(weights: np.ndarray, part: np.ndarray, whole: np.ndarray | None = None) -> np.ndarray:
    """(r, b), (b,), (b,) -> (r,): the sum of `part` per sum of `whole`, by default all bags; NaN if that is 0."""
    whole = np.ones(weights.shape[1]) if whole is None else whole
    part = part & whole if part.dtype == bool == whole.dtype else part
    total = weights @ whole
    return np.divide(weights @ part, total, out=np.full(len(total), np.nan), where=total > 0)


def _interval(values: np.ndarray) -> np.ndarray:  # (r, ...) -> (..., 2)
    tail = (1 - CONFIDENCE) / 2
    undefined = np.isnan(values).all(axis=0)
    filled = np.where(undefined, 0.0, values)
    ends = np.moveaxis(np.nanquantile(filled, [tail, 1 - tail], axis=0), 0, -1)
    return np.where(undefined[..., None], np.nan, ends)


def _with_width(ends: np.ndarray, bags: np.ndarray | None) -> np.ndarray:  # (..., 2), (...) -> (..., 2)
    """Replace intervals without width: by the exact ones of shares of 0 or 1 of so many bags, otherwise by NaN."""
    low, high = ends[..., 0], ends[..., 1]
    exact = np.full(ends.shape, np.nan) if bags is None else exact_interval(low, bags)
    return np.where((low == high)[..., None], exact, ends)


def exact_interval(share: np.ndarray, bags: np.ndarray) -> np.ndarray:  # (...), (...) -> (..., 2)
    """The interval of Clopper and Pearson for a share of 0 or 1 of independent bags; NaN for other shares.

    >>> exact_interval(np.array([1.0, 0.0]), np.array([6, 6])).round(3).tolist()
    [[0.541, 1.0], [0.0, 0.459]]
    """
    bound = ((1 - CONFIDENCE) / 2) ** (1 / np.maximum(bags, 1))
    low = np.select([share == 1, share == 0], [bound, 0.0], np.nan)
    high = np.select([share == 1, share == 0], [1.0, 1 - bound], np.nan)
    return np.stack([low, high], axis=-1)


def _bags_of_shares(outcome: Outcome) -> dict[str, np.ndarray]:
    """How many bags each figure is over that is a share of bags or instances. Of classes: (T,)."""
    bags: dict[str, Any] = {"background_share": len(outcome.hard_counts)}
    if outcome.labels is not None:
        labelled = outcome.labels.known.sum()
        right = outcome.labels.allows(outcome.predicted).sum()
        bags |= {"bag_accuracy": labelled, "method_bag_accuracy": labelled, "consistency_rate": right}
        if outcome.ranked is not None:
            bags["runner_up_accuracy"] = outcome.ranked.sum()
    if outcome.known is not None and outcome.confusion is not None:
        known, background, n_true = outcome.known, outcome.background, len(outcome.confusion)
        of_class = {
            "precision": _bags_per_class(known.bag, known.predicted, n_true),
            "recall": _bags_per_class(known.bag, known.true, n_true),
        }
        bags |= {f"class {name}": counts for name, counts in of_class.items()}
        bags["instance_accuracy"] = len(np.unique(known.bag))
        if background is not None:
            bags |= {f"background_{name}": counts[background] for name, counts in of_class.items()}
            bags["voter_accuracy"] = len(np.unique(known.bag[known.true != background]))
    return {name: np.asarray(count) for name, count in bags.items()}


def _bags_per_class(bag: np.ndarray, of_class: np.ndarray, n_classes: int) -> np.ndarray:  # (n,), (n,) -> (T,)
    """In how many bags each class occurs."""
    return np.bincount(np.unique(bag * n_classes + of_class) % n_classes, minlength=n_classes)
