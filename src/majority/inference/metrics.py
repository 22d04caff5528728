"""Every figure we report, in one place, from counts: what was predicted for whom, how often."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.background import majority_of

CALIBRATION_BINS = 15


@dataclass(frozen=True)
class Outcome:
    """What a model made of some bags. True counts, confusion and calibration are of the instances whose class is
    known, and None where none is. Their true classes T are the classes C, then those that no bag label names."""

    labels: np.ndarray | None  # (b,) given; None: bag figures are left out
    predicted: np.ndarray  # (b,) by the method's aggregation
    hard_counts: np.ndarray  # (b, C) instances predicted as each class
    true_counts: np.ndarray | None = None  # (b, T)
    confusion: np.ndarray | None = None  # (T, T) true class, predicted class
    calibration: np.ndarray | None = None  # (bins, 3) instances, their summed confidence, how many were right
    background: int | None = None  # a class that does not vote

    def summary(self) -> dict:
        """The figures by name; instance figures only where instance labels are known."""
        figures = {**self._of_labels(), "bags": len(self.hard_counts), "instances": int(self.hard_counts.sum())}
        if self.background is not None:
            figures["background_share"] = float(self.hard_counts[:, self.background].sum() / self.hard_counts.sum())
        if self.confusion is None:
            return figures
        return {
            "instance_accuracy": instance_accuracy(self.confusion),
            "macro_f1": macro_f1(self.confusion),
            "mean_iou": mean_iou(self.confusion),
            "calibration_error": calibration_error(self.calibration),
            **self._overestimation(),
            **figures,
            **self._known(),
            **({} if self.background is None else background_figures(self.confusion, self.background)),
        }

    def _of_labels(self) -> dict:
        if self.labels is None:
            return {}
        by_count = majority_of(self.hard_counts, self.background)
        return {
            "bag_accuracy": bag_accuracy(self.labels, self.predicted),
            "bag_accuracy_by_count": bag_accuracy(self.labels, by_count),
            "most_frequent_label": float(np.bincount(self.labels).max() / len(self.labels)),
            "consistency_rate": consistency_rate(self.labels, self.predicted, self.hard_counts, self.background),
        }

    @property
    def fully_known(self) -> np.ndarray:  # (b,) whether the true class of every instance of the bag is known
        return self.true_counts.sum(axis=1) == self.hard_counts.sum(axis=1)

    def _overestimation(self) -> dict:
        """Of the bags all of whose instances are known, if there are any."""
        full = self.fully_known
        if self.labels is None or not full.any():
            return {}
        over = overestimation(self.labels[full], self.hard_counts[full], self.true_counts[full])
        quantiles = np.quantile(over, [0, 0.25, 0.5, 0.75, 1]).tolist()
        return {"overestimation": float(over.mean()), "overestimation_quantiles": quantiles}

    def _known(self) -> dict:
        """How many instances the figures are of, and how many bags are known in full, where not all are."""
        if self.fully_known.all():
            return {}
        return {"known_instances": int(self.confusion.sum()), "known_bags": int(self.fully_known.sum())}


def instance_accuracy(confusion: np.ndarray) -> float:
    """
    >>> instance_accuracy(np.array([[3, 1], [0, 4]]))
    0.875
    """
    return float(np.trace(confusion) / confusion.sum())


def macro_f1(confusion: np.ndarray) -> float:
    """Mean F1 over the classes that occur or are predicted."""
    hits, rows, columns = _margins(confusion)
    return float(np.mean(2 * hits / (rows + columns)))


def mean_iou(confusion: np.ndarray) -> float:
    """Mean intersection over union over the classes that occur or are predicted."""
    hits, rows, columns = _margins(confusion)
    return float(np.mean(hits / (rows + columns - hits)))


def bag_accuracy(labels: np.ndarray, predicted: np.ndarray) -> float:
    return float(np.mean(labels == predicted))


def no_learning_warning(figures: dict) -> str | None:
    """What to say where bags do not show that anything was learned: by two standard errors, no more of them are
    predicted right, by the method or by counting instances, than by naming the most frequent label everywhere.

    >>> doubt({"bag_accuracy": 0.23, "most_frequent_label": 0.15, "bags": 100})
    >>> doubt({"bag_accuracy": 0.15, "bag_accuracy_by_count": 0.9, "most_frequent_label": 0.15, "bags": 100})
    >>> print(doubt({"bag_accuracy": 0.22, "most_frequent_label": 0.15, "bags": 100}))
    nothing shows that anything was learned: 22 % of these 100 bags are predicted right, 15 % by always naming one label
    >>> doubt({"bag_accuracy": 1.0, "most_frequent_label": 0.6, "bags": 5})[:61]
    'too few bags to show whether anything was learned: 100 % of t'
    """
    if "most_frequent_label" not in figures:
        return None
    own, named, bags = figures["bag_accuracy"], figures["most_frequent_label"], figures["bags"]
    counted = figures.get("bag_accuracy_by_count", own)
    needed = named + 2 * (named * (1 - named) / bags) ** 0.5
    if max(own, counted) > needed:
        return None
    more = f" ({counted:.0%} by count)" if counted > own else ""
    of_these = "this 1 bag is" if bags == 1 else f"these {bags} bags are"
    shares = f"{own:.0%} of {of_these} predicted right{more}, {named:.0%} by always naming one label"
    said = "too few bags to show whether anything" if named < 1 <= needed else "nothing shows that anything"
    return f"{said} was learned: {shares}".replace("%", " %")


def coverage_note(*parts: dict) -> str | None:
    """What to say of the figures of these parts, such as folds, where the classes of some instances alone are known.

    >>> print(coverage({"instances": 9000, "bags": 100, "known_instances": 2000, "known_bags": 0}))
    instance figures are over the 2,000 of 9,000 instances with a known class
    >>> coverage({"instances": 9000, "bags": 100})
    """
    total = lambda unit: sum(part.get(unit, 0) for part in parts)
    of_part = lambda part, unit: part.get(f"known_{unit}", part.get(unit, 0) if "instance_accuracy" in part else 0)
    known = lambda unit: sum(of_part(part, unit) for part in parts)
    if known("instances") in (0, total("instances")):
        return None
    over = f"the {known('instances'):,} of {total('instances'):,} instances with a known class"
    full = f"the {known('bags'):,} of {total('bags'):,} bags known in full"
    more = f", overestimation over {full}" if any("overestimation" in part for part in parts) else ""
    return f"instance figures are over {over}{more}"


def consistency_rate(
    labels: np.ndarray, predicted: np.ndarray, hard_counts: np.ndarray, background: int | None = None
) -> float | None:
    """Among bags predicted right, the share whose hard counts name the same class (lowest class on ties).

    None where no bag was predicted right.
    """
    right = labels == predicted
    if not right.any():
        return None
    return float(np.mean(majority_of(hard_counts[right], background) == predicted[right]))


def overestimation(labels: np.ndarray, hard_counts: np.ndarray, true_counts: np.ndarray) -> np.ndarray:
    """Per bag, instances predicted as the bag's class minus their true number."""
    bags = np.arange(len(labels))
    return hard_counts[bags, labels] - true_counts[bags, labels]


def calibration_error(calibration: np.ndarray) -> float:
    """Expected calibration error: the gap between confidence and accuracy, by equal-width bins of confidence."""
    _, confidence, right = calibration.T
    return float(np.abs(confidence - right).sum() / calibration[:, 0].sum())


def background_figures(confusion: np.ndarray, background: int) -> dict[str, float | None]:
    """How well the background is found, and the accuracy over the instances that are not of it.

    None where the background is never predicted (precision) or never there (recall).
    """
    hits, rows, columns = confusion[background, background], confusion[background].sum(), confusion[:, background].sum()
    others = np.delete(confusion, background, axis=0)
    return {
        "background_precision": float(hits / columns) if columns else None,
        "background_recall": float(hits / rows) if rows else None,
        "voter_accuracy": float((np.trace(confusion) - hits) / others.sum()) if others.sum() else None,
    }


def _margins(confusion: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    hits, rows, columns = np.diag(confusion), confusion.sum(axis=1), confusion.sum(axis=0)
    seen = rows + columns > 0
    return hits[seen], rows[seen], columns[seen]
