"""What labels say: nothing, one of several, winner and runner-up."""

import numpy as np
import pandas as pd
import pytest
import torch

from majority import Bags, InputError, MajorityLabelClassifier, build_model
from majority.data.labels import RUNNER_UP, SEVERAL, BagLabels
from majority.io.in_memory import as_source
from majority.training.loop import fit
from majority.training.settings import Settings


def bags_of(labels, size=4, **more):
    rng = np.random.default_rng(0)
    return Bags.from_lists([rng.normal(size=(size, 3)) for _ in labels], labels, **more)


def mixed():
    seconds = ["b", "", "", "", "a", ""]
    return bags_of(["a", "b", "", "a|c", "c", "c"], second_labels=seconds, groups=list("uvwxyz"))


def test_every_kind_of_label():
    bags = mixed()
    assert bags.classes == ("a", "b", "c")
    assert bags.labels.tolist() == [0, 1, -1, -1, 2, 2]
    labels = bags.bag_labels
    assert labels.known.tolist() == [True, True, False, True, True, True]
    assert labels.seconds.tolist() == [1, -1, -1, -1, 0, -1]
    assert np.flatnonzero(labels.allowed[3]).tolist() == [0, 2]
    assert labels.kinds == {SEVERAL, RUNNER_UP}
    assert (labels.first_of(SEVERAL), labels.first_of(RUNNER_UP)) == (3, 0)
    assert labels.allows(np.array([0, 0, 0, 2, 2, 2])).tolist() == [True, False, False, True, True, True]
    assert labels.counts.tolist() == [1, 1, 2]
    assert labels.most_frequent() == 3 / 5  # class c: bags 3, 4 and 5
    assert labels.texts(bags.classes) == ["a", "b", "", "a|c", "c", "c"]
    assert labels.second_texts(bags.classes) == ["b", "", "", "", "a", ""]
    assert "1 bag without a label" in repr(bags)


def test_plain_labels_have_no_more_arrays_and_the_same_fingerprint():
    plain = bags_of(["a", "b", "a"])
    assert plain.bag_labels.kinds == set()
    assert len(plain.bag_labels.arrays()) == 1
    assert plain.fingerprint() == bags_of([0, 1, 0], classes=["a", "b"]).fingerprint()
    others = [bags_of(["a", "b", ""]), bags_of(["a", "b", "a|b"])]
    others.append(bags_of(["a", "b", "a"], second_labels=["b", "", ""]))
    assert len({bags.fingerprint() for bags in [plain, *others]}) == 4


@pytest.mark.parametrize("missing", [np.nan, pd.NA, ""])
def test_ways_to_write_no_label(missing):
    for labels in (["a", missing, "b"], pd.Series(["a", missing, "b"])):
        assert bags_of(labels).labels.tolist() == [0, -1, 1]
    assert bags_of([0, -1, 1], classes=["a", "b"]).labels.tolist() == [0, -1, 1]
    assert bags_of([7, -1, 7]).classes == ("-1", "7")  # without classes, numbers are names
    if not isinstance(missing, str):
        assert bags_of([0, missing, 1], classes=["1", "0"]).labels.tolist() == [0, -1, 1]  # with them, class numbers
        ranked = bags_of([0, 1, missing], second_labels=[1, missing, missing], classes=["1", "0"]).bag_labels
        assert (ranked.winners.tolist(), ranked.seconds.tolist()) == ([0, 1, -1], [1, -1, -1])
        assert bags_of([0, 1], second_labels=[missing] * 2, classes=["1", "0"]).bag_labels.runner_up is None
    assert bags_of(pd.Series([7, None, 9])).classes == ("7", "9")


@pytest.mark.parametrize(
    ("labels", "more", "message"),
    [
        (["a|b", "b"], {"second_labels": ["c", ""]}, r"bag 0: its label is a\|b and its runner-up c: name the second"),
        (["a|c", "b"], {"classes": ["a", "b"]}, "bag 0 has label c, outside the 2 classes"),
        (["a", "b|b"], {}, r"bag 1: its label is b\|b: write each class once"),
        ([0, 1], {"second_labels": [0, -1], "classes": ["a", "b"]}, "bag 0: its label is a and its runner-up a"),
    ],
)
def test_impossible_labels(labels, more, message):
    with pytest.raises(InputError, match=message):
        bags_of(labels, **more)


def test_subsets_keep_what_labels_say():
    bags = mixed()
    some = bags.subset([5, 3, 0])
    assert some.bag_labels.texts("abc") == ["c", "a|c", "a"]
    assert some.bag_labels.second_texts("abc") == ["", "", "b"]
    assert bags.subset([1, 5]).bag_labels.kinds == set()


def test_a_class_that_is_only_named_with_others_is_refused():
    labels = ["a", "b", "a|c"] * 20
    bags, refused = bags_of(labels), r"label a\|c, and class c is only named together with others"
    with pytest.raises(InputError, match=refused):
        as_source(bags).make_parts()
    with pytest.raises(InputError, match=refused):
        as_source((bags, bags_of(["a", "b"], classes="abc")))
    with pytest.raises(InputError, match=refused):
        MajorityLabelClassifier(epochs=1).fit(bags.instances(), np.repeat(labels, 4), groups=bags.ids)
    assert len(as_source(bags_of([*labels, "c", "c", "c", "c", "c"])).make_parts().train) > 30


# ---------------------------------------------------------------------- training


def some_bags(seed, n, labelled):
    """Bags of three classes, the first `labelled` of them with labels of every kind."""
    rng = np.random.default_rng(seed)
    lists, labels, seconds, truth = [], [], [], []
    for bag in range(n):
        order = rng.permutation(3)
        classes = np.repeat(order, [5, 3, 1])
        lists.append((np.eye(3)[classes] * 2 + rng.normal(size=(9, 3))).astype(np.float32))
        truth.append(classes)
        names = "".join("abc"[c] for c in order)
        labels.append("" if bag >= labelled else f"{names[0]}|{names[1]}" if bag % 5 == 4 else names[0])
        seconds.append(names[1] if bag < labelled and bag % 2 == 0 and bag % 5 != 4 else "")
    return Bags.from_lists(lists, labels, list("abc"), second_labels=seconds, instance_labels=truth)


@pytest.mark.parametrize("method", ["count", "adjusted-mean"])
def test_bags_without_a_label_change_no_loss(method):
    """Training on the labelled bags alone gives the same network, bit for bit, if the statistics are the same."""
    bags, val = some_bags(0, 24, 16), some_bags(1, 10, 10)
    plan = Settings(epochs=2, batch_bags=8)
    models, records = [], []
    for train in (bags, bags.with_labels()):
        model = build_model(bags, method)
        records.append(fit(model, train, val, plan, device="cpu", title=None).history)
        models.append(model.state_dict())
    assert [{**line, "seconds": 0} for line in records[0]] == [{**line, "seconds": 0} for line in records[1]]
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])


def test_other_labels_of_some_bags_leave_all_others_as_they_are():
    """Also where a class has the name of a label with several classes."""
    classes = ("a", "b", "a|b")
    allowed = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]], bool)
    labels = BagLabels(allowed, [1, 2, -1, -1])
    bags = Bags.from_lists([np.ones((3, 2))] * 4, np.array([0, 1, 2, 0]), classes)._with(bag_labels=labels)
    changed = bags.with_other_labels({0: "b"}).bag_labels
    assert changed.winners.tolist() == [1, 1, 2, -1]
    assert changed.seconds.tolist() == [-1, 2, -1, -1]
    assert changed.allowed[1:].tolist() == allowed[1:].tolist()
    assert changed.allowed[0].tolist() == [False, True, False]
    without = bags.with_other_labels({1: "", 0: "a", 3: "a"}).bag_labels
    assert (without.winners.tolist(), without.runner_up) == ([0, -1, 2, 0], None)
