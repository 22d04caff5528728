"""Instance labels that training may use: which are drawn, and that figures leave them out."""

import numpy as np
import pytest

from majority import Bags, InputError, load_source
from majority.data.joining import join
from majority.data.training_labels import (
    use_instance_labels,
    used_instances,
    with_training_labels,
    without_labels_of,
)


def make_parts(**choices):
    return load_source("digits").make_parts(scenario="small", bags=40, bag_size=16, **choices)


def test_so_many_instances_of_each_class_are_drawn_by_the_seed():
    train = make_parts().train
    few = use_instance_labels(train, per_class=3, seed=1)
    used = used_instances(few)
    assert len(used) == 30
    true = {int(i): int(label) for i, label in zip(train.index, train.instance_labels, strict=True)}
    assert np.bincount([true[i] for i in used.tolist()]).tolist() == [3] * 10
    assert np.array_equal(used, used_instances(use_instance_labels(train, per_class=3, seed=1)))
    assert not np.array_equal(used, used_instances(use_instance_labels(train, per_class=3, seed=2)))


def test_more_than_there_are_uses_all():
    bags = Bags.from_lists([np.ones((3, 2))] * 2, ["a", "b"], instance_labels=[["a", "", "b"], ["b", "", "c"]])
    for used in (use_instance_labels(bags), use_instance_labels(bags, per_class=9)):
        assert used.training_labels.tolist() == [0, -1, 1, 1, -1, -1]  # no bag is labelled c: it cannot be predicted
        assert used.instance_labels.tolist() == [-1, -1, -1, -1, -1, 2]


def test_other_parts_leave_out_what_was_learned_from():
    store, bags = np.ones((4, 2)), ([0, 1], [1, 2], [3])
    train, val, other = (
        Bags(store, index, [0, len(index)], ["a"], ["a", "b"], instance_labels=[0] * len(index)) for index in bags
    )
    used = use_instance_labels(train)
    assert without_labels_of(val, used.store, used_instances(used)).instance_labels.tolist() == [-1, 0]
    assert without_labels_of(other, used.store, used_instances(used)).instance_labels.tolist() == [0]
    elsewhere = val._with(store=store.copy())
    assert without_labels_of(elsewhere, used.store, used_instances(used)).instance_labels.tolist() == [0, 0]


def test_they_follow_bags_into_subsets_and_joins_and_change_the_fingerprint():
    parts = make_parts()
    few = use_instance_labels(parts.train, per_class=1)
    assert few.fingerprint() != few._with(training_labels=None).fingerprint()
    assert few.without_instance_labels().training_labels is few.training_labels
    bag = int(few.ids[np.argmax(few.training_labels >= 0)])
    assert (few.subset([bag]).training_labels >= 0).any()
    without = [i for i in range(len(few)) if (few.training_labels[few.ids == i] == -1).all()]
    assert few.subset(without[:1]).training_labels is None
    both = join([few, parts.val])
    assert both.training_labels.tolist() == [*few.training_labels, *[-1] * len(parts.val.index)]


def test_labels_of_rows_for_the_estimator():
    bags = Bags.from_table(np.ones((4, 1)), ["q", "p", "q", "p"], ["a", "b", "a", "b"])
    assert with_training_labels(bags, ["a", None, "", "b"]).training_labels.tolist() == [0, -1, -1, 1]
    numbered = Bags.from_table(np.ones((4, 1)), ["q", "p", "q", "p"], [0, 1, 0, 1])
    assert with_training_labels(numbered, np.array([0, -1, -1, 1])).training_labels.tolist() == [0, -1, -1, 1]
    with pytest.raises(InputError, match="row 2 has instance label c, which is the label of no bag"):
        with_training_labels(bags, ["a", None, "c", "b"])
    with pytest.raises(InputError, match="no instance has one"):
        with_training_labels(bags, [None, None, "", ""])


def test_nothing_to_use_is_refused():
    bags = make_parts().train
    with pytest.raises(InputError, match=r"no instance of the training bags has a label.*column label"):
        use_instance_labels(bags.without_instance_labels())
    with pytest.raises(InputError, match="0 instance labels per class: give 1 or more"):
        use_instance_labels(bags, per_class=0)
