"""What the bag labels say against a model: warnings from the figures of labelled bags. No instance label is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

CERTAIN = 3  # standard deviations by which the numbers of bags must differ
LEAST_GAP = 0.1  # between the two bag accuracies
MOST_CLASSES = 5  # that are named
ANOTHER_METHOD = "compare with another method (--method, method=)"


class SkewedClass(NamedTuple):
    """A class that has the most predicted instances in far more, or far fewer, bags than have its label."""

    name: str
    labelled: int
    counted: int
    bags: int  # all that were compared


def find_label_warnings(
    figures: Mapping[str, Any], skewed: Sequence[SkewedClass] = (), without_votes: int = 0
) -> list[str]:
    """All warnings about labelled bags, the most important first; in `without_votes` of them all instances are
    predicted as the background.

    >>> figures = {"bag_accuracy": 0.8, "method_bag_accuracy": 0.85, "most_frequent_label": 0.2, "bags": 100}
    >>> print(*find_label_warnings(figures, [SkewedClass("pine", 6, 40, 100)]))
    too many instances seem to be predicted as pine: it is the label of 6 of 100 bags and has the most instances in ...
    """
    found = [
        no_learning_warning(figures),
        _contradiction(figures),
        _only_background(without_votes, figures.get("bags", 0)),
        *map(_describe, skewed),
    ]
    return [warning for warning in found if warning is not None]


def no_learning_warning(figures: Mapping[str, Any]) -> str | None:
    """A warning if the bags do not show that the model has learned anything.

    The share of bags that are predicted correctly, by counting instances or by the method itself, must exceed the
    share of the most frequent label by two standard errors.

    >>> no_learning_warning({"bag_accuracy": 0.23, "most_frequent_label": 0.15, "bags": 100})
    >>> print(no_learning_warning({"bag_accuracy": 0.22, "most_frequent_label": 0.15, "bags": 100}))
    no evidence that the model has learned: 22 % of 100 bags are predicted correctly, and 15 % by always predicting ...
    """
    if "most_frequent_label" not in figures:
        return None
    accuracy, baseline, bags = figures["bag_accuracy"], figures["most_frequent_label"], figures["bags"]
    own = figures.get("method_bag_accuracy", accuracy)
    needed = baseline + 2 * (baseline * (1 - baseline) / bags) ** 0.5
    if max(accuracy, own) > needed:
        return None
    by_method = f" ({own:.0%} by the method itself)" if own > accuracy else ""
    predicted = f"{accuracy:.0%} of {bags:,} {'bag is' if bags == 1 else 'bags are'} predicted correctly{by_method}"
    shares = f"{predicted}, and {baseline:.0%} by always predicting the most frequent label".replace("%", " %")
    cure = "more bags, or bags with clearer majorities, help most"
    if baseline < 1 <= needed:
        return f"too few bags to show whether the model has learned: {shares}; {cure}"
    return f"no evidence that the model has learned: {shares}; {cure}"


def _contradiction(figures: Mapping[str, Any]) -> str | None:
    """A warning if far fewer bags are right by their instances than by the method's own prediction."""
    own, counted, bags = (figures.get(name) for name in ("method_bag_accuracy", "bag_accuracy", "bags"))
    if own is None or counted is None or bags is None:
        return None
    error = sqrt((own * (1 - own) + counted * (1 - counted)) / bags)
    if own - counted <= max(LEAST_GAP, CERTAIN * error):
        return None
    seen = f"in {counted:.0%} of {bags:,} bags most instances are predicted as the bag's label".replace("%", " %")
    own_share = f"{own:.0%}".replace("%", " %")
    return f"the instances contradict the bags: {seen}, but {own_share} of the bags are predicted correctly by the " + (
        f"method itself; instance predictions may be poor: {ANOTHER_METHOD}"
    )


def _only_background(without_votes: int, bags: int) -> str | None:
    """A warning if many bags seem to have no instance that votes.

    >>> print(_only_background(20, 100))
    too many instances seem to be predicted as the background: in 20 of 100 bags all are; ...
    """
    if without_votes < max(LEAST_GAP * bags, 1):
        return None
    seen = f"in {without_votes:,} of {bags:,} bags all are"
    return f"too many instances seem to be predicted as the background: {seen}; give its share, if you know it " + (
        "(--background-share, background_share=)"
    )


def _describe(skew: SkewedClass) -> str:
    amount = "many" if skew.counted > skew.labelled else "few"
    seen = f"it is the label of {skew.labelled:,} of {skew.bags:,} bags and has the most instances in {skew.counted:,}"
    return f"too {amount} instances seem to be predicted as {skew.name}: {seen}; {ANOTHER_METHOD}"


def find_skewed_classes(
    labels: np.ndarray, counted: np.ndarray, classes: Sequence[str], background: int | None = None
) -> list[SkewedClass]:
    """(b,) labels and (b,) classes with the most predicted instances -> the classes whose numbers of bags differ by a
    factor of two, and by more than chance explains; the largest difference first. The background, which `counted` has
    where no instance votes, is no such class.

    >>> find_skewed_classes(np.repeat([0, 1], [94, 6]), np.repeat([0, 1], [60, 40]), ["oak", "pine"])
    [SkewedClass(name='pine', labelled=6, counted=40, bags=100)]
    """
    given, found = (np.bincount(of_bags, minlength=len(classes)) for of_bags in (labels, counted))
    gap = np.abs(found - given)
    is_skewed = (gap > CERTAIN * np.sqrt(found + given)) & (np.maximum(found, given) >= 2 * np.minimum(found, given))
    order = [one for one in np.argsort(-gap, kind="stable").tolist() if is_skewed[one] and one != background]
    return [SkewedClass(classes[one], int(given[one]), int(found[one]), len(labels)) for one in order[:MOST_CLASSES]]
