"""True classes that are known for some instances: how they are given, properties of Bags, metrics."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch

from majority import Bags, InputError, Settings, build_model, fit

SIZES = (1, 4, 9, 2, 6)
LABELS = ["cat", "dog", "cat", "dog", "cat"]


def bags_of(instance_labels, labels=LABELS, **more):
    rng = np.random.default_rng(0)
    store = rng.normal(size=(sum(SIZES), 3)).astype(np.float32)
    offsets = np.cumsum([0, *SIZES])
    return Bags(store, np.arange(len(store)), offsets, labels, instance_labels=instance_labels, **more)


def partly_known(known, names=("cat", "dog", "cow")):
    """The classes in turn, for the instances that are `known`."""
    return [names[i % len(names)] if known(i) else None for i in range(sum(SIZES))]


# ---------------------------------------------------------------- input


GIVEN = {
    "text": ["dog", "", "cat"],
    "None": ["dog", None, "cat"],
    "NaN": ["dog", np.nan, "cat"],
    "an array of objects": np.array(["dog", None, "cat"], object),
    "a column": pd.Series(["dog", None, "cat"]),
    "a column of strings": pd.Series(["dog", None, "cat"], dtype="string"),
    "categories": pd.Series(["dog", None, "cat"], dtype="category"),
}
NUMBERS = {
    "-1": [1, -1, 0],
    "a tensor": torch.tensor([1, -1, 0]),
    "None": [1, None, 0],
    "NaN": np.array([1, np.nan, 0]),
    "objects": np.array([1, np.nan, 0], object),
    "a nullable column": pd.Series([1, None, 0], dtype="Int64"),
}


def test_an_instance_without_a_name_is_unknown():
    for given, classes in itertools.product(GIVEN.values(), (None, ["cat", "dog"])):
        table = Bags.from_table(np.eye(3), ["x", "x", "y"], ["dog", "dog", "cat"], classes, instance_labels=given)
        assert table.instance_labels.tolist() == [1, -1, 0]
        assert table.fully_known.tolist() == [False, True]


def test_an_instance_without_a_number_is_unknown():
    for given in NUMBERS.values():
        by_number = Bags.from_table(np.eye(3), list("xxy"), [1, 1, 0], ["cat", "dog"], instance_labels=given)
        by_name = Bags.from_table(np.eye(3), list("xxy"), [1, 1, 0], instance_labels=given)
        assert by_number.instance_labels.tolist() == by_name.instance_labels.tolist() == [1, -1, 0]
        assert by_name.classes == by_name.true_classes == ("0", "1")


def test_names_that_differ_from_all_bag_labels_are_errors():
    half = sum(SIZES) // 2
    for given in (["Cat"] * half + ["Dog"] * half, [0] * half + [1] * half):
        with pytest.raises(InputError, match=r"bags \(cat, dog\): use the same names for both, or leave"):
            bags_of(given)


# ---------------------------------------------------------------- properties


def test_counts_need_known_instances_and_majorities_fully_known_bags():
    bags = bags_of(partly_known(lambda i: i < 6))
    assert bags.true_classes == ("cat", "dog", "cow")
    assert bags.fully_known.tolist() == [True, True, False, False, False]
    assert bags.class_counts().tolist() == [[1, 0, 0], [1, 2, 1], [0, 0, 1], [0, 0, 0], [0, 0, 0]]
    with pytest.raises(InputError, match=r"bag 2 has instances of unknown class.*use bags.subset\(bags.fully_known\)"):
        bags.majority_proportions()
    with pytest.raises(InputError, match="bag 2 has instances of unknown class"):
        bags.tie_rate()
    full = bags.subset(bags.fully_known)
    assert full.majority_proportions().tolist() == [1, 0.5]
    assert full.tie_rate() == 0


def test_a_background_that_only_instances_have_becomes_a_class():
    given = partly_known(lambda i: i % 5, ("cat", "dog", "ant", "void"))
    plain = bags_of(given)
    bags = plain.with_background("void")
    assert (bags.classes, bags.true_classes) == (("cat", "dog", "void"), ("cat", "dog", "void", "ant"))

    def class_names(bags):
        return [None if code < 0 else bags.true_classes[code] for code in bags.instance_labels]

    assert class_names(bags) == class_names(plain) == class_names(plain.with_background("new")) == given


# ---------------------------------------------------------------- training


def test_methods_that_see_instance_labels_need_those_of_bag_labels():
    bags = bags_of(partly_known(lambda i: True))
    fact = "method supervised .* of 22 instances 7 have .* no bag's label: label all"
    with pytest.raises(InputError, match=fact):
        fit(build_model(bags, "supervised"), bags, bags, Settings(epochs=1), device="cpu")
