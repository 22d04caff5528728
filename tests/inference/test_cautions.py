"""Warnings from labelled bags: when they are given, when not, and where a user sees them."""

import numpy as np
import pytest

from majority.inference.cautions import cautions, doubtful_classes, no_learning

GOOD = {"bag_accuracy": 0.9, "bag_accuracy_by_count": 0.88, "most_frequent_label": 0.2, "bags": 100}


def test_figures_that_agree_give_no_warning():
    assert cautions(GOOD, ["a", "b"]) == []


def test_bags_without_labels_give_no_warning():
    assert cautions({"bags": 5, "instances": 20}, ["a"]) == []


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
    figures = GOOD | {"bag_accuracy": own, "bag_accuracy_by_count": counted, "bags": bags}
    found = [warning for warning in cautions(figures, ["a"]) if "contradict" in warning]
    assert bool(found) == warned
    if warned:
        assert "40 %" in found[0]
        assert "85 %" in found[0]
        assert "--method vote" in found[0]


def test_a_class_that_wins_too_many_or_too_few_bags_is_named():
    labels, counted = np.repeat([0, 1, 2], [60, 6, 34]), np.repeat([0, 1, 2], [60, 36, 4])
    doubts = doubtful_classes(labels, counted, 3)
    assert [(doubt["class"], doubt["bags_labelled"], doubt["bags_counted"]) for doubt in doubts] == [
        (1, 6, 36),
        (2, 34, 4),
    ]
    many, few = cautions(GOOD | {"doubtful_classes": doubts}, ["oak", "pine", "elm"])
    assert "too many" in many
    assert "pine" in many
    assert "label of 6 of 100" in many
    assert "too few" in few
    assert "elm" in few


@pytest.mark.parametrize("seed", range(20))
def test_random_errors_give_no_doubt(seed):
    """One bag in ten is wrong, evenly over the classes."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(5, size=300, p=[0.4, 0.3, 0.15, 0.1, 0.05])
    counted = np.where(rng.random(300) < 0.1, rng.integers(5, size=300), labels)
    assert doubtful_classes(labels, counted, 5) == []


def test_no_learning_is_the_first_warning():
    figures = GOOD | {"bag_accuracy": 0.2, "bag_accuracy_by_count": 0.2, "doubtful_classes": []}
    assert cautions(figures, ["a"]) == [no_learning(figures)]
