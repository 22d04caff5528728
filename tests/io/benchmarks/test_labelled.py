"""Folds and the bags of a fold."""

import numpy as np
import pytest

from majority.errors import InputError
from majority.io import LabelledSet


def vectors(n=403, n_classes=4, **more) -> LabelledSet:
    labels = np.random.default_rng(7).integers(0, n_classes, n)
    store = np.arange(2.0 * n).reshape(n, 2)
    return LabelledSet("vectors", store, labels, tuple("abcdefghij"[:n_classes]), **more)


def test_folds_are_equal_disjoint_and_drop_the_remainder():
    folds = vectors(403).folds(data_seed=3)
    assert [len(part) for part in folds] == [80] * 5
    assert len(np.unique(np.concatenate(folds))) == 400


@pytest.mark.parametrize("seed", range(2))
def test_stratified_folds_share_each_class_within_one(seed):
    labelled = vectors(403, stratified=True)
    folds = labelled.folds(seed)
    counts = np.array([np.bincount(labelled.labels[part], minlength=4) for part in folds])
    assert np.ptp(counts, axis=0).max() <= 1
    assert {len(part) for part in folds} == {80}


@pytest.mark.parametrize("seed", range(2))
def test_folds_never_divide_a_group(seed):
    groups = np.random.default_rng(1).integers(0, 40, 403)
    folds = vectors(403, groups=groups).folds(seed)
    owners = [set(groups[part]) for part in folds]
    assert sum(len(owner) for owner in owners) == len(set(groups))
    assert sorted(np.concatenate(folds)) == list(range(403))
    assert np.ptp([len(part) for part in folds]) <= np.bincount(groups).max()


def test_too_few_instances_or_groups():
    with pytest.raises(InputError, match=r"vectors has 4 instances.*at least 5"):
        vectors(4).folds(0)
    with pytest.raises(InputError, match=r"vectors has 3 groups.*at least 5"):
        vectors(300, groups=np.arange(300) % 3).folds(0)


@pytest.mark.parametrize("fold", [0, 4])
def test_a_fold_is_for_testing_the_next_for_validation_and_the_rest_for_training(fold):
    labelled = vectors(2000)
    folds = [set(part) for part in labelled.folds(5)]
    train, val, test = labelled.make_parts(fold=fold, bags=40, bag_size=10, data_seed=5)
    assert set(test.index) <= folds[fold]
    assert set(val.index) <= folds[(fold + 1) % 5]
    assert set(train.index) <= set().union(*(folds[(fold + i) % 5] for i in (2, 3, 4)))
    assert [len(part) for part in (train, val, test)] == [40, 10, 10]
    assert all((part.sizes == 10).all() for part in (train, val, test))


def test_the_bags_depend_only_on_the_arguments():
    prints = [
        tuple(part.fingerprint() for part in vectors(2000).make_parts(bags=8, bag_size=10, **given))
        for given in ({}, {}, {"data_seed": 1}, {"fold": 1})
    ]
    assert prints[0] == prints[1]
    assert len({part for three in prints for part in three}) == 9


def test_options_are_passed_on_to_make_bags():
    parts = vectors(2000).make_parts(
        scenario="large", bags=20, bag_size=10, shared=False, ties="error", winner_prior=[0, 0, 1, 1]
    )
    for part in parts:
        assert (part.majority_proportions() >= 0.6).all()
        assert set(part.labels) <= {2, 3}
        assert len(set(part.index)) == len(part.index)
    crowded = vectors(100).make_parts(bags=4, bag_size=60, with_replacement=True)
    assert all(len(set(part.index)) < len(part.index) for part in crowded)


def test_the_first_classes_keep_their_folds_and_store_positions():
    labelled = vectors(2000)
    few, all_of_them, plain = (
        labelled.make_parts(scenario="large", bags=40, bag_size=10, **given)
        for given in ({"classes": 2}, {"classes": 4}, {})
    )
    folds = [set(part) for part in labelled.folds(0)]
    assert set(few.test.index) <= folds[0]
    for part in few:
        assert part.store is labelled.store
        assert part.classes == ("a", "b")
        assert set(part.labels) == {0, 1}
        np.testing.assert_array_equal(part.instance_labels, labelled.labels[part.index])
    assert [part.fingerprint() for part in all_of_them] == [part.fingerprint() for part in plain]


def test_the_winner_ratio_is_a_geometric_prior():
    labelled = vectors(2000)
    given = {"scenario": "large", "bags": 1500, "bag_size": 5}
    train = labelled.make_parts(winner_ratio=8, **given).train
    expected = np.array([8, 4, 2, 1]) * 1500 / 15
    assert (abs(np.bincount(train.labels, minlength=4) - expected) < 4 * np.sqrt(expected)).all()
    balanced, plain = (labelled.make_parts(**given, **more).train for more in ({"winner_ratio": 1}, {}))
    assert balanced.fingerprint() == plain.fingerprint()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"bags": 3}, "3 training bags.*at least 4"),
        ({"fold": 5}, "fold 5.*0 to 4"),
        ({"folds": 4}, "folds 4.*five folds.*--fold"),
        ({"data_seed": -1}, "data seed is -1.*at least 0"),
        ({"classes": 1}, "1 of the 4 classes of vectors.*2 to 4"),
        ({"classes": 2, "background": "c"}, "background.* 'c'|'c'.*background"),
        ({"winner_ratio": 0.5}, "winner ratio.*0.5.* 1 .*or more"),
        ({"winner_ratio": 2, "winner_prior": [1, 1, 1, 1]}, "winner_ratio and winner_prior"),
    ],
)
def test_wrong_arguments(given, message):
    with pytest.raises(InputError, match=message):
        vectors(2000).make_parts(**{"bag_size": 10} | given)


def test_a_labelled_set_checks_its_arrays():
    with pytest.raises(InputError, match="3 instances but 2 labels"):
        LabelledSet("mine", np.zeros((3, 2)), np.array([0, 1]), ("a", "b"))
    with pytest.raises(InputError, match="mine, instance 2 has label 5, outside the 2 classes"):
        LabelledSet("mine", np.zeros((3, 2)), np.array([0, 1, 5]), ("a", "b"))
    with pytest.raises(InputError, match="dtype int64"):
        LabelledSet("mine", np.zeros((3, 2), np.int64), np.array([0, 1, 1]), ("a", "b"))


def test_labels_may_have_the_runner_up():
    labelled = vectors(2000)
    given = {"bags": 200, "bag_size": 7, "scenario": "various"}
    plain, ranked = (labelled.make_parts(**given, **more).train for more in ({}, {"labels": "top2"}))
    assert plain.bag_labels.kinds == set()
    np.testing.assert_array_equal(plain.index, ranked.index)
    for counts, winner, second in zip(ranked.class_counts(), ranked.labels, ranked.bag_labels.seconds, strict=True):
        order = sorted(range(len(counts)), key=lambda c: (-counts[c], c))
        assert winner == order[0]
        assert second == (order[1] if counts[order[1]] else -1)
    assert (ranked.bag_labels.seconds == -1).any()
    with pytest.raises(InputError, match=r"'top3'.*winner, top2"):
        labelled.make_parts(labels="top3")
    background = labelled.make_parts(**given, labels="top2", background="b").train
    assert background.background not in background.bag_labels.seconds
