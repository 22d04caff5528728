"""Warnings from labelled bags: when they are given, when not, and where a user sees them."""

import numpy as np
import pytest
from predicted import predicted

from majority.predict.label_warnings import contradiction_warning, skewed_class_warnings


@pytest.mark.parametrize(
    ("own", "counted", "bags", "warned"),
    [
        (0.85, 0.40, 100, True),
        (0.85, 0.40, 8, False),  # too few bags to say
        (0.85, 0.80, 10_000, False),  # certain, but small
        (0.40, 0.85, 100, False),  # the instances are better
    ],
)
def test_instances_that_contradict_the_bags(own, counted, bags, warned):
    found = contradiction_warning({"method_bag_accuracy": own, "bag_accuracy": counted, "bags": bags})
    assert (found is not None) == warned
    if found:
        assert all(fact in found for fact in ("contradict", "40 %", "85 %", "another method"))


def test_random_errors_give_no_warning():
    """One bag in ten is wrong, evenly over the classes."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        labels = rng.choice(5, size=300, p=[0.4, 0.3, 0.15, 0.1, 0.05])
        counted = np.where(rng.random(300) < 0.1, rng.integers(5, size=300), labels)
        assert skewed_class_warnings(labels, counted, "abcde") == []


def test_a_model_that_predicts_one_class_everywhere_gets_a_warning_in_its_figures():
    """As `evaluate`, the page and result.json have it; the bag predictions are right."""
    labels = np.repeat([0, 1], 50)
    outcome = predicted(labels, np.tile([3, 7], (100, 1)), labels, ("oak", "pine"))
    warnings = outcome.summary()["warnings"]
    assert "contradict" in warnings[0]
    assert "50 %" in warnings[0]
    assert "100 %" in warnings[0]
    assert any("pine" in warning and "too many" in warning for warning in warnings)
    good = predicted(labels, np.array([[7, 3], [3, 7]])[labels], labels, ("oak", "pine"))
    assert "warnings" not in good.summary()


def test_bags_that_seem_to_have_only_background_are_counted_apart():
    """The background is the label of no bag."""
    labels, options = np.repeat([0, 1], 50), {"background": 2, "classes": ("oak", "pine", "other")}
    votes = np.column_stack([labels == 0, labels == 1, np.ones(100)]) * 6
    votes[::5] = [0, 0, 10]
    known = np.arange(100) >= 10  # two of the bags without a label have only background
    outcome = predicted(np.where(known, labels, -1), votes, np.where(votes[:, 0] > 0, 0, 1), **options)
    (warning,) = outcome.summary()["warnings"]
    assert "as other: it is the label of 0 of 90 bags and has the most instances in 18" in warning
    assert "--background-share" in warning
    few = predicted(labels[5:55], np.where(votes[5:55] == 10, 0, votes[5:55]) + 1, labels[5:55], **options)
    assert "warnings" not in few.summary()
