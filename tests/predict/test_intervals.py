"""Intervals over resampled bags, against explicit resampling; the bins of calibration."""

import numpy as np
import pytest
from scipy.stats import binomtest

from majority import Bags
from majority.data.labels import BagLabels
from majority.io.metrics import describe
from majority.predict.intervals import bootstrap
from majority.predict.predictions import Predictions

CLASSES = ("ant", "bee", "owl")


def made_up(seed=0, n=25, known=1.0, background=None, labels=True):
    """Bags of 1 to 8 instances, and predictions for them that are right four times out of five."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, n)
    truth = rng.integers(0, 3, sizes.sum())
    given = np.where(rng.random(sizes.sum()) < known, truth, -1) if known else None
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    first = 1 if background == 0 else 0
    bag_labels = rng.integers(first, 3, n)
    store = np.zeros((sizes.sum(), 2), np.float32)
    bags = Bags(store, np.arange(sizes.sum()), offsets, bag_labels, CLASSES, instance_labels=given)
    bags = bags if background is None else bags.with_background(CLASSES[background])
    if not labels:
        bags = bags._with(bag_labels=BagLabels.of(np.full(n, -1), len(bags.classes)))
    guess = np.where(rng.random(len(truth)) < 0.8, truth, rng.integers(0, 3, len(truth)))
    of_bags = np.where(rng.random(n) < 0.7, bags.labels, rng.integers(first, 3, n))
    return Predictions(bags, CLASSES, guess, rng.uniform(0.3, 1, len(truth)).astype(np.float32), of_bags, background)


def take(predictions, drawn):
    """The bags of a resample, copied one by one."""
    bags = predictions.bags
    positions = np.concatenate([np.arange(bags.offsets[bag], bags.offsets[bag + 1]) for bag in drawn])
    offsets = np.concatenate([[0], np.cumsum(bags.sizes[drawn])])
    known = None if bags.instance_labels is None else bags.instance_labels[positions]
    chosen = bags._with(
        index=bags.index[positions],
        offsets=offsets,
        bag_labels=bags.bag_labels.take(drawn),
        instance_labels=known,
        names=None,
    )
    of_instances = (predictions.guess[positions], predictions.confidence[positions])
    return Predictions(chosen, CLASSES, *of_instances, predictions.by_method[drawn], predictions.background)


@pytest.mark.parametrize(
    "choices",
    [{"known": 0.5}, {"known": 0}, {"background": 0}, {"labels": False}],
    ids=["some known", "bag labels only", "background", "no bag labels"],
)
def test_the_intervals_are_those_of_explicit_resampling(choices):
    predictions = made_up(**choices)
    n = len(predictions.bags)
    drawn = np.random.default_rng(7).integers(n, size=(200, n))
    draws = [take(predictions, resample).summary() for resample in drawn]
    found = bootstrap(predictions, resamples=200, seed=7)
    names = {name for name, value in predictions.summary().items() if isinstance(value, float)} - {
        "most_frequent_label"
    }
    drawn_values = {name: [draw[name] for draw in draws if draw.get(name) is not None] for name in names}
    assert set(found) == {name for name, values in drawn_values.items() if np.ptp(values) > 0}
    for name in found:
        values = drawn_values[name]
        np.testing.assert_allclose(found[name], np.quantile(values, [0.025, 0.975]), rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("right", [True, False])
def test_a_share_of_0_or_1_has_the_exact_binomial_interval(right):
    """The class of one instance is known in each bag but the first, which has none."""
    n = 6
    known = np.where(np.arange(3 * n) % 3 == 0, 0, -1)
    known[0] = -1
    store = np.zeros((3 * n, 1), np.float32)
    places = np.arange(3 * n), np.arange(0, 3 * n + 1, 3)
    bags = Bags(store, *places, np.zeros(n, int), CLASSES, instance_labels=known)
    found = bootstrap(Predictions(bags, CLASSES, np.full(3 * n, 0 if right else 1), np.full(3 * n, 0.9)))
    for interval, units in (
        (found["bag_accuracy"], n),
        (found["method_bag_accuracy"], n),
        (found["instance_accuracy"], n - 1),
    ):
        exact = binomtest(units if right else 0, units).proportion_ci(0.95, method="exact")
        np.testing.assert_allclose(interval, [exact.low, exact.high], atol=1e-12)
    assert "macro_f1" not in found, "it never changes, and it is no share"


def test_the_bins_of_calibration_add_up():
    predictions = made_up()
    content, n = describe(predictions), len(predictions.bags.index)
    bins = content["calibration"]
    assert sum(row["instances"] for row in bins) == n
    gap = sum(row["instances"] * abs(row["confidence"] - row["accuracy"]) for row in bins) / n
    assert gap == pytest.approx(content["figures"]["calibration_error"])
