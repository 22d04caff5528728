"""Bags drawn from labelled instances: ranges, rounding, strata, ties, winners and errors."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

from majority.data.proportions import round_counts, sample_proportions
from majority.data.scenarios import majority_range, make_bags
from majority.errors import InputError

seeds = st.integers(0, 2**32 - 1)


def labelled_set(n_classes, per_class):
    """A store whose only value is its own position, shuffled labels, and class names."""
    store = np.arange(n_classes * per_class, dtype=float)[:, None]
    labels = np.random.default_rng(5).permutation(np.arange(len(store)) % n_classes)
    return store, labels, [f"class-{c}" for c in range(n_classes)]


def draw(n_classes=4, per_class=200, n_bags=20, size=12, seed=0, **more):
    rng = np.random.default_rng(seed)
    return make_bags(*labelled_set(n_classes, per_class), n_bags=n_bags, size=size, rng=rng, **more)


def bag_rows(bags):  # (b, size)
    return bags.index.reshape(len(bags), -1)


@pytest.mark.parametrize(
    ("scenario", "n_classes", "expected"),
    [
        ("small", 10, (0.1, 0.4)),
        ("various", 2, (0.5, 1.0)),
        ("0.3,0.5", 10, (0.3, 0.5)),
        (" 0.0 , 0.5 ", 4, (0.25, 0.5)),
        ((0.3, 0.5), 10, (0.3, 0.5)),
        ((0.0, 1.0), 5, (0.2, 1.0)),
    ],
)
def test_ranges_of_names_text_and_pairs(scenario, n_classes, expected):
    assert majority_range(scenario, n_classes, size=64) == expected


@pytest.mark.parametrize(
    ("scenario", "n_classes", "size", "message"),
    [
        ("tiny", 10, 64, r"'tiny' is unknown: use small, various, large or LOW,HIGH"),
        ((0.1, None), 10, 64, "unknown"),
        ("0.5,0.3", 10, 64, r"0\.5,0\.3 is not a range .* 0 <= LOW < HIGH <= 1"),
        ("small", 2, 64, r"no bag of 64 .* small \(0\.5 to 0\.4\) with 2 classes: use larger bags, or another range"),
        ("0.31,0.39", 10, 10, r"no bag of 10 .* 0\.31,0\.39"),
        ("various", 1, 64, "1 classes .*: give at least 2"),
    ],
)
def test_wrong_ranges_are_errors(scenario, n_classes, size, message):
    with pytest.raises(InputError, match=message):
        majority_range(scenario, n_classes, size)


@settings(max_examples=100, deadline=None)
@given(n_classes=st.integers(2, 40), size=st.integers(1, 500), where=st.floats(0, 1), seed=seeds)
def test_counts_are_the_largest_remainder_rounding(n_classes, size, where, seed):
    m = min(1, 1 / n_classes + (1 - 1 / n_classes) * where)
    proportions = sample_proportions(np.full(5, m), n_classes, np.random.default_rng(seed))
    counts = round_counts(proportions, size)
    assert np.issubdtype(counts.dtype, np.integer)
    assert (counts.sum(axis=1) == size).all()
    assert (np.abs(counts - size * proportions) < 1).all()
    assert (counts[:, 0] == counts.max(axis=1)).all()
    exact = size * proportions
    for row in range(5):  # entries rounded up have a remainder at least as large as the others
        up = counts[row] > np.floor(exact[row])
        remainder = exact[row] - np.floor(exact[row])
        assert not up.any() or up.all() or remainder[up].min() >= remainder[~up].max()


@settings(max_examples=50, deadline=None)
@given(
    n_classes=st.integers(2, 12),
    size=st.integers(1, 60),
    n_bags=st.integers(1, 25),
    scenario=st.sampled_from(["small", "various", "large", "0.2,0.7"]),
    ties=st.sampled_from(["lowest", "resample", "error"]),
    shared=st.booleans(),
    seed=seeds,
)
def test_bags_have_the_requested_properties(n_classes, size, n_bags, scenario, ties, shared, seed):
    ask = {"n_classes": n_classes, "per_class": size * n_bags, "n_bags": n_bags, "size": size, "scenario": scenario}
    ask |= {"ties": ties, "shared": shared, "seed": seed}
    try:
        bags = draw(**ask)
    except InputError as error:  # an empty range, or ties that cannot be resolved
        assume(not any(word in str(error) for word in ("no bag of", "tied")))
        raise
    store, labels, classes = labelled_set(n_classes, size * n_bags)
    assert bags.classes == tuple(classes)
    assert np.array_equal(bags.store, store)
    assert bags.sizes.tolist() == [size] * n_bags
    assert np.array_equal(bags.instance_labels, labels[bags.index])
    counts = bags.class_counts()
    assert np.array_equal(bags.labels, counts.argmax(axis=1))
    if ties != "lowest":
        assert bags.tie_rate() == 0
    low, high = majority_range(scenario, n_classes, size)
    proportions = bags.majority_proportions()
    assert (proportions > low - 1 / size).all()
    assert (proportions < high + 1 / size).all()
    assert all(len(set(row)) == size for row in bag_rows(bags).tolist())
    if not shared:
        assert len(set(bags.index.tolist())) == len(bags.index)
    again = draw(**ask)
    assert np.array_equal(bags.index, again.index)
    assert np.array_equal(bags.labels, again.labels)
    assert not np.array_equal(draw(seed=0).index, draw(seed=1).index)


def test_majorities_are_uniform_in_the_range():
    bags = draw(n_classes=3, per_class=2000, n_bags=1000, size=1000, scenario="large")
    assert kstest(bags.majority_proportions(), "uniform", args=(0.6, 0.4)).statistic < 0.02


@pytest.mark.parametrize("how", [{}, {"shared": False}, {"with_replacement": True}])
def test_only_positions_of_the_part_are_used(how):
    part = np.random.default_rng(3).permutation(800)[:500]
    assert np.isin(draw(positions=part, n_bags=15, **how).index, part).all()


def test_neither_bags_nor_instances_are_sorted():
    bags = draw(n_bags=200, size=30, per_class=100)
    majorities, place_in_bag = bags.majority_proportions(), np.tile(np.arange(30), 200)
    won = bags.instance_labels == np.repeat(bags.labels, 30)
    assert abs(np.corrcoef(bags.instance_labels, place_in_bag)[0, 1]) < 0.05
    assert abs(np.corrcoef(won, place_in_bag)[0, 1]) < 0.05
    assert abs(np.corrcoef(majorities, np.arange(200))[0, 1]) < 0.2
    assert abs(np.corrcoef(majorities, bags.labels)[0, 1]) < 0.2


def test_winners_follow_their_prior():
    prior = np.array([5, 0, 3, 2])
    bags = draw(n_bags=3000, size=31, winner_prior=prior, ties="resample")
    won = np.bincount(bags.labels, minlength=4) / 3000
    assert won[1] == 0
    np.testing.assert_allclose(won, prior / prior.sum(), atol=0.035)


def test_lowest_favours_low_classes_and_resample_does_not():
    ask = {"n_classes": 10, "n_bags": 4000, "size": 64, "scenario": "small"}
    ask |= {"with_replacement": True}  # changes no count, and is fast
    published = draw(**ask, ties="lowest")
    assert 0.15 < published.tie_rate() < 0.25
    assert (published.labels < 5).mean() > 0.53  # 0.5 and about 4 standard errors
    fair = draw(**ask, ties="resample")
    assert fair.tie_rate() == 0
    assert abs((fair.labels < 5).mean() - 0.5) < 0.025
    counts = published.class_counts()
    tied = (counts == counts.max(axis=1, keepdims=True)).sum(axis=1) > 1
    assert np.array_equal(published.labels[tied], counts[tied].argmax(axis=1))


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            {"per_class": 2, "part": "train"},
            r"class-\d has 2 instances in train, one bag needs \d+: use smaller or fewer",
        ),
        ({"per_class": 20, "shared": False, "part": "val"}, r"class-\d has 20 instances in val, all bags need \d+"),
        ({"with_replacement": True, "shared": False}, "with_replacement .* shared=False .* choose one"),
        ({"ties": "coin"}, "ties='coin' is unknown: use one of lowest, resample, error"),
        ({"n_bags": 0}, "0 bags are too few: give at least 1"),
    ],
)
def test_errors_name_the_cause_and_the_cure(ask, message):
    with pytest.raises(InputError, match=message):
        draw(**ask)
