"""Weights of instances in Bags: constructors, parts, files, majorities and errors."""

import numpy as np
import pytest

from majority import Bags, InputError, make_bags
from majority.data.joining import join


def fields(**changes):
    given = {"weights": [[1, 1, 5], [2.5, 0.5]], "instance_labels": [["a", "a", "b"], ["b", "a"]]} | changes
    return Bags.from_lists([np.zeros((3, 2)), np.ones((2, 2))], ["b", "b"], ["a", "b"], **given)


def test_the_majority_is_by_weight():
    bags = fields()
    assert bags.class_counts().tolist() == [[2, 1], [1, 1]]
    assert bags.class_counts(weighted=True).tolist() == [[2, 5], [0.5, 2.5]]
    assert bags.majority_proportions().tolist() == pytest.approx([5 / 7, 2.5 / 3])
    assert bags.tie_rate() == 0
    assert fields(weights=None).tie_rate() == 0.5


def test_constructors_subsets_and_joins_keep_them():
    bags = fields()
    assert bags.subset([1]).weights.tolist() == [2.5, 0.5]
    assert bags.without_instance_labels().weights is bags.weights
    table = Bags.from_table(np.eye(3), ["q", "p", "q"], ["a", "b", "a"], weights=[1.0, 2.0, 3.0])
    assert table.weights.tolist() == [1, 3, 2]
    indices = Bags.from_indices(np.eye(3), [[0, 2], [1]], ["a", "b"], weights=[1, 2, 3])
    assert indices.weights.tolist() == [1, 2, 3]
    assert bags.fingerprint() != fields(weights=None).fingerprint()
    assert join([bags, fields(weights=None)]).weights.tolist() == [1, 1, 5, 2.5, 0.5, 1, 1, 1, 1, 1]
    assert join([fields(weights=None)] * 2).weights is None


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf")])
def test_a_weight_that_is_no_positive_number_is_refused(wrong):
    with pytest.raises(InputError, match=r"bag 1, instance 0 has weight .*give a number above 0"):
        fields(weights=[[1, 1, 1], [wrong, 1]])


def test_weights_that_are_no_numbers_are_refused():
    with pytest.raises(InputError, match="give one number per instance"):
        Bags.from_table(np.eye(2), ["p", "q"], ["a", "b"], weights=["x", "y"])


@pytest.mark.parametrize("background", [None, "b"])
def test_benchmark_bags_are_labelled_by_weight(background):
    labels, weights = np.arange(300) % 3, np.exp(2 * np.random.default_rng(0).normal(size=300))

    def make(**given):
        options = {"n_bags": 30, "size": 9, "rng": np.random.default_rng(1), "background": background}
        return make_bags(np.zeros((300, 2)), labels, "abc", labels_say="top2", **options, **given)

    plain, bags = make(), make(weights=weights)
    assert np.array_equal(bags.index, plain.index), "the same bags"
    for bag in range(30):
        rows = bags.index[bags.offsets[bag] : bags.offsets[bag + 1]]
        sums = {name: weights[rows][labels[rows] == number].sum() for number, name in enumerate("abc")}
        sums.pop(background, None)
        first, second = sorted(sums, key=sums.get)[:-3:-1]
        assert bags.classes[bags.labels[bag]] == first
        assert bags.bag_labels.second_texts(bags.classes)[bag] in (second, "")
    assert (bags.labels != plain.labels).any()
    with pytest.raises(InputError, match="instance 4 has weight -1"):
        make(weights=np.where(np.arange(300) == 4, -1, weights))
