"""What the bag labels say against a model: warnings from the figures of labelled bags. No instance label is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

import numpy as np

CERTAIN = 3  # standard deviations by which the numbers of bags must differ
LEAST_GAP = 0.1  # between the two bag accuracies
MOST_CLASSES = 5  # that are named
ANOTHER_METHOD = "compare with another method (--method, method=)"
SHARE = "give its share, if you know it (--background-share, background_share=)"


def no_learning_warning(figures: Mapping[str, Any]) -> str | None:
    """A warning if the bags do not show that the model has learned anything.

    The share of bags that are predicted correctly, by counting instances or by the method itself, must exceed the
    share of the most frequent label by two standard errors.

    >>> figures = {"bag_accuracy": 0.23, "method_bag_accuracy": 0.2, "most_frequent_label": 0.15, "bags": 100}
    >>> no_learning_warning(figures)
    >>> print(no_learning_warning(figures | {"bag_accuracy": 0.22}))
    no evidence that the model has learned: 22 % of 100 bags are predicted correctly, and 15 % by always predicting ...
    """
    baseline, bags = figures["most_frequent_label"], figures["bags"]
    accuracy = max(figures["bag_accuracy"], figures["method_bag_accuracy"])
    needed = baseline + 2 * sqrt(baseline * (1 - baseline) / bags)
    if accuracy > needed:
        return None
    few = baseline < 1 <= needed
    what = "too few bags to show whether the model has learned" if few else "no evidence that the model has learned"
    alone = " by the method itself" * (figures["method_bag_accuracy"] > figures["bag_accuracy"])
    return (
        f"{what}: {_percent(accuracy)} of {bags:,} bags are predicted correctly{alone}, and {_percent(baseline)} by "
        "always predicting the most frequent label; more bags, or bags with clearer majorities, help most"
    )


def contradiction_warning(figures: Mapping[str, Any]) -> str | None:
    """A warning if far fewer bags are right by their instances than by the method's own prediction."""
    own, counted, bags = (figures[name] for name in ("method_bag_accuracy", "bag_accuracy", "bags"))
    error = sqrt((own * (1 - own) + counted * (1 - counted)) / bags)
    if own - counted <= max(LEAST_GAP, CERTAIN * error):
        return None
    return (
        f"the instances contradict the bags: in {_percent(counted)} of {bags:,} bags most instances are predicted as "
        f"the bag's label, but {_percent(own)} of the bags are predicted correctly by the method itself; instance "
        f"predictions may be poor: {ANOTHER_METHOD}"
    )


def skewed_class_warnings(
    labels: np.ndarray, counted: np.ndarray, classes: Sequence[str], background: int | None = None
) -> list[str]:
    """(b,) labels and (b,) classes with the most predicted instances -> a warning for each class whose numbers of bags
    differ by a factor of two, and by more than chance explains; the largest difference first. `counted` has the
    background where no instance votes.

    >>> print(*skewed_class_warnings(np.repeat([0, 1], [94, 6]), np.repeat([0, 1], [60, 40]), ["oak", "pine"]))
    too many instances seem to be predicted as pine: it is the label of 6 of 100 bags and has the most instances in ...
    """
    given, found = (np.bincount(of_bags, minlength=len(classes)) for of_bags in (labels, counted))
    gap = np.abs(found - given)
    is_skewed = (gap > CERTAIN * np.sqrt(found + given)) & (np.maximum(found, given) >= 2 * np.minimum(found, given))
    return [
        f"too {'many' if found[one] > given[one] else 'few'} instances seem to be predicted as {classes[one]}: it is "
        f"the label of {given[one]:,} of {len(labels):,} bags and has the most instances in {found[one]:,}; "
        f"{SHARE if one == background else ANOTHER_METHOD}"
        for one in np.argsort(-gap, kind="stable").tolist()
        if is_skewed[one]
    ][:MOST_CLASSES]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
