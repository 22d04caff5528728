"""Bags: constructors, errors, properties, parts and files."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from majority.data.bags import Bags
from majority.errors import InputError

seeds = st.integers(0, 2**32 - 1)
FIELDS = ("labels", "instance_labels", "groups", "coordinates", "names")


def fields(**changes):
    """Four bags of 3, 1, 4 and 2 instances on a store of 12 vectors, every field given."""
    given = {
        "store": np.random.default_rng(0).normal(size=(12, 5)).astype(np.float32),
        "index": np.array([11, 0, 5, 5, 1, 2, 3, 4, 9, 9]),
        "offsets": np.array([0, 3, 4, 8, 10]),
        "labels": [2, 0, 1, 0],
        "classes": ["cat", "dog", "owl"],
        "instance_labels": [2, 2, 0, 0, 1, 1, 0, 1, 0, 2],
        "groups": ["p", "q", "p", "r"],
        "coordinates": np.arange(20).reshape(10, 2),
        "names": ["one", "two", "three", "four"],
    }
    return given | changes


def make(**changes):
    return Bags(**fields(**changes))


def images(n=4, shape=(2, 3, 1)):
    return np.arange(n * np.prod(shape), dtype=np.uint8).reshape(n, *shape)


def numbered(labels, groups=None):
    """A bag of one instance for each label; the instance's value is the bag's number."""
    n = len(labels)
    classes = [f"class-{c}" for c in range(max(labels) + 1)]
    return Bags(np.arange(n, dtype=float)[:, None], np.arange(n), np.arange(n + 1), labels, classes, groups=groups)


def assert_same(ours, theirs):
    assert (ours.classes, ours.true_classes) == (theirs.classes, theirs.true_classes)
    assert ours.sizes.tolist() == theirs.sizes.tolist()
    assert ours.store.dtype == theirs.store.dtype
    assert np.array_equal(ours.instances(), theirs.instances())
    for name in FIELDS:
        one, two = getattr(ours, name), getattr(theirs, name)
        assert (one is None) is (two is None), name
        assert one is None or one.tolist() == two.tolist(), name


# ---------------------------------------------------------------- constructors


def test_a_bag_has_the_instances_at_its_positions():
    bags = make()
    assert len(bags) == 4
    assert bags.sizes.tolist() == [3, 1, 4, 2]
    assert bags.ids.tolist() == [0, 0, 0, 1, 2, 2, 2, 2, 3, 3]
    assert [bags.bag_of(i) for i in range(10)] == bags.ids.tolist()
    for i, positions in enumerate([[11, 0, 5], [5], [1, 2, 3, 4], [9, 9]]):
        assert np.array_equal(bags.bag(i), bags.store[positions])
    assert repr(bags) == "Bags(4 bags of 1 to 4, 10 instances of shape (5,), classes: cat, dog, owl)"
    assert repr(bags.subset([3])).startswith("Bags(1 bags of 2,")


@settings(max_examples=50, deadline=None)
@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=8), seed=seeds)
def test_every_constructor_makes_the_same_bags(sizes, seed):
    rng = np.random.default_rng(seed)
    n, b, cuts = sum(sizes), len(sizes), np.cumsum(sizes)[:-1]
    store, truth, where = rng.normal(size=(n, 2)), rng.integers(3, size=n), rng.integers(9, size=(n, 2))
    labels = rng.integers(3, size=b)
    flat, per_bag = {"instance_labels": truth, "coordinates": where}, {"groups": rng.integers(4, size=b)}
    direct = Bags(store, np.arange(n), [0, *cuts, n], labels, "xyz", names=range(b), **flat, **per_bag)

    lists = {name: np.split(values, cuts) for name, values in flat.items()}
    assert_same(Bags.from_lists(np.split(store, cuts), labels, "xyz", names=range(b), **lists, **per_bag), direct)
    indices = np.split(np.arange(n), cuts)
    assert_same(Bags.from_indices(store, indices, labels, "xyz", names=range(b), **flat, **per_bag), direct)

    rows = rng.permutation(n)
    ids = direct.ids[rows]
    columns = {name: values[rows] for name, values in flat.items()} | {"groups": direct.groups[ids]}
    table = Bags.from_table(store[rows], ids, labels[ids], "xyz", **columns)
    first_seen = list(dict.fromkeys(ids.tolist()))  # bags are in the order of their first row
    in_bags = np.concatenate([rows[ids == i] for i in first_seen])  # and instances in the order of their rows
    expected = {name: values[in_bags] for name, values in flat.items()} | {"groups": direct.groups[first_seen]}
    offsets = np.cumsum([0, *direct.sizes[first_seen]])
    assert_same(table, Bags(store, in_bags, offsets, labels[first_seen], "xyz", names=first_seen, **expected))


# ---------------------------------------------------------------- errors


def with_nan():
    store = fields()["store"].copy()
    store[2, 4] = np.nan  # bag 2, its second instance
    return store


A, B = np.zeros((2, 3)), np.zeros((1, 3))


def lists(instances, **more):
    return lambda: Bags.from_lists(instances, [0, 1], ["a", "b"], **more)


def table(**changes):
    return lambda: Bags.from_table(**{"store": np.eye(3), "bag_ids": list("bab"), "labels": list("xyx")} | changes)


ERRORS = {
    "empty bag": (lambda: make(offsets=[0, 3, 3, 8, 10]), "bag 1 is empty: leave it out"),
    "position too high": (
        lambda: make(index=[0] * 5 + [12] + [0] * 4),
        "bag 2, instance 1 points to position 12: .*11",
    ),
    "NaN": (lambda: make(store=with_nan()), r"bag 2 \(three\), instance 1 holds NaN or infinity.*: correct or leave"),
    "label too high": (
        lambda: make(labels=[2, 0, 3, 0]),
        r"bag 2 \(three\) has label 3, outside the 3 classes \(cat, dog, owl\)",
    ),
    "instance label": (
        lambda: make(instance_labels=[0] * 8 + [5, 0]),
        r"bag 3 \(four\), instance 0 has label 5, outside",
    ),
    "classes named twice": (lambda: make(classes=["cat", "dog", "cat"]), "class cat is named twice"),
    "coordinates of three": (lambda: make(coordinates=np.zeros((10, 3))), r"shape \(10, 3\).*: give one \(x, y\)"),
    "integer vectors": (lambda: make(store=np.zeros((12, 5), int)), r"dtype int64: .*astype\('float32'\)"),
    "no bags": (lists([]), "no bags were given"),
    "an empty list": (lists([A, []], names=np.array(["x", "y"])), "bag y is empty"),
    "shapes": (lists([A, np.zeros((1, 4))]), r"bag 1 has instances of .*\(4,\).*\(3,\).*: give all bags one"),
    "too few labels": (lists([A, B], instance_labels=[[0, 0]]), "2 bags but 1 instance labels"),
    "too few names": (lists([A, B], names=["x"]), "2 bags but 1 names"),
    "a weight per bag": (lists([A, B], weights=[1, 2]), "bag 0 has 2 instances and 1 weights"),
    "too few coordinates": (lists([A, B], coordinates=[[[0, 0]], [[0, 0]]]), "bag 0 has 2 instances and 1 coordinates"),
    "two labels": (table(labels=list("xyy")), r"bag b has two labels, x \(row 0\) and y \(row 2\): all rows of a bag"),
    "rows": (table(store=np.eye(4)), "3 bag ids but 4 instances"),
    "no integers": (lambda: Bags.from_indices(np.eye(3), [[0.5]], ["a"]), "index has dtype float64"),
    "an empty subset": (lambda: make().subset([]), "the subset is empty"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_name_the_place_and_the_cure(case):
    action, message = ERRORS[case]
    with pytest.raises(InputError, match=message):
        action()


# ---------------------------------------------------------------- properties


@settings(max_examples=50, deadline=None)
@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=8), seed=seeds)
def test_counts_ties_and_majorities_are_those_of_a_plain_loop(sizes, seed):
    truth = [np.random.default_rng([seed, i]).integers(3, size=size) for i, size in enumerate(sizes)]
    bags = Bags.from_lists([np.zeros((size, 1)) for size in sizes], [0] * len(sizes), "abc", instance_labels=truth)
    counts = [[sum(int(y == c) for y in bag) for c in range(3)] for bag in truth]
    assert bags.class_counts().tolist() == counts
    assert bags.majority_proportions().tolist() == [max(row) / sum(row) for row in counts]
    assert bags.tie_rate() == sum(sorted(row)[-1] == sorted(row)[-2] for row in counts) / len(sizes)


def test_bags_without_instance_labels_keep_everything_else():
    bags = make()
    hidden = bags.without_instance_labels()
    assert hidden.store is bags.store
    assert_same(hidden, make(instance_labels=None))
    assert bags.instance_labels is not None
    with pytest.raises(InputError, match="have no instance labels"):
        hidden.majority_proportions()


def test_fingerprint_covers_all_that_training_sees(monkeypatch):
    own, store = make().fingerprint(), fields()["store"]
    other_pixel, unused = store.copy(), store.copy()
    other_pixel[9, 4] += 1e-6
    unused[8] = 7
    others = [make(labels=[2, 0, 1, 1]), make(store=other_pixel), make(store=store.astype(np.float64))]
    others += [make(offsets=[0, 3, 5, 8, 10]), make(index=[0, 11, 5, 5, 1, 2, 3, 4, 9, 9])]
    others += [make(classes=["cat", "dog", "emu"]), make().subset([0, 1, 2])]
    other_instance_labels = [make(instance_labels=[0] * 10), make(instance_labels=None)]
    assert len({own, *(bags.fingerprint() for bags in others + other_instance_labels)}) == 10
    assert {bags.fingerprint() for bags in (make(store=unused), make().subset(range(4)))} == {own}
    assert {bags.without_instance_labels().fingerprint() for bags in other_instance_labels} == {
        make().without_instance_labels().fingerprint()
    }
    grey, turned = images(), images().reshape(4, 3, 2, 1)  # the same bytes in another shape
    assert len({Bags.from_indices(store, [range(4)], ["a"]).fingerprint() for store in (grey, turned)}) == 2
    monkeypatch.setattr("majority.data.stores.CHUNK", 3)
    assert make().fingerprint() == own


# ---------------------------------------------------------------- parts


@pytest.mark.parametrize("chosen", [[2, 0], [3, 3, 1], [-1, -4], [False, True, False, True]])
def test_subset_keeps_order_repeats_bags_and_does_not_copy(chosen):
    bags = make()
    part = bags.subset(chosen)
    assert part.store is bags.store
    old = np.arange(4)[chosen]
    rows = np.concatenate([np.flatnonzero(bags.ids == bag) for bag in old])
    assert part.sizes.tolist() == bags.sizes[old].tolist()
    assert np.array_equal(part.instances(), bags.instances()[rows])
    for name in FIELDS:
        where = rows if name in ("instance_labels", "coordinates") else old
        assert np.array_equal(getattr(part, name), getattr(bags, name)[where])


fraction_lists = st.sampled_from([[1.0], [0.5, 0.5], [0.6, 0.2, 0.2], [0.9, 0.1], [0.5, 0.25, 0.25], [0.25] * 4])


@settings(max_examples=100, deadline=None)
@given(labels=st.lists(st.integers(0, 3), min_size=1, max_size=60), fractions=fraction_lists, seed=seeds)
def test_split_has_every_label_within_one_bag_of_its_fraction(labels, fractions, seed):
    try:
        parts = numbered(labels).split(fractions, seed)
    except InputError:
        assert len(labels) * min(fractions) < 2
        return
    assert sorted(np.concatenate([part.instances().ravel() for part in parts])) == list(range(len(labels)))
    for part, fraction in zip(parts, fractions, strict=True):
        assert part.labels.tolist() == [labels[int(bag)] for bag in part.instances()[:, 0]]
        off = np.bincount(part.labels, minlength=4) - fraction * np.bincount(labels, minlength=4)
        assert (np.abs(off) < 1).all()
        assert abs(off.sum()) < 2


@settings(max_examples=50, deadline=None)
@given(groups=st.lists(st.integers(0, 12), min_size=4, max_size=60), seed=seeds)
def test_split_never_divides_a_group(groups, seed):
    bags = numbered([i % 3 for i in range(len(groups))], groups=[f"patient-{group}" for group in groups])
    if len(set(groups)) == 1:
        with pytest.raises(InputError, match="1 groups of bags cannot be divided into 70%, 30%"):
            bags.split([0.7, 0.3], seed)
        return
    parts = bags.split([0.7, 0.3], seed)
    assert not set(parts[0].groups) & set(parts[1].groups)
    assert sum(len(part) for part in parts) == len(groups)
