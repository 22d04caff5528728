"""The division into training, validation and test bags: given, random, or by folds; groups are never divided."""

import json

import numpy as np
import pytest

from majority import Bags, InputError, load_source
from majority.data.joining import join
from majority.io import CustomBags

TRAIN = ("--recipe", "quick", "--method", "adjusted-mean", "--epochs", 2, "--device", "cpu")


def custom_bags(bags=40, groups=None, split=None):
    labels = ["a", "b"] * (bags // 2)
    made = Bags.from_lists([np.ones((2, 3))] * bags, labels, groups=groups, names=[f"n{i}" for i in range(bags)])
    return CustomBags("example", made, split)


def names(parts):
    return [set(part.names) for part in parts]


def test_bags_are_divided_by_label_and_seed():
    parts = custom_bags().make_parts()
    assert [np.bincount(part.labels).tolist() for part in parts] == [[12, 12], [4, 4], [4, 4]]
    assert names(parts) == names(custom_bags().make_parts())
    assert names(parts) != names(custom_bags().make_parts(data_seed=1))


def test_groups_are_never_divided():
    source = custom_bags(groups=[f"g{i // 4}" for i in range(40)])
    for parts in (source.make_parts(), source.make_parts(folds=5, fold=2)):
        groups = [set(part.groups) for part in parts]
        assert sum(map(len, groups)) == len(set.union(*groups)) == 10


@pytest.mark.sample(3)
@pytest.mark.parametrize("background", [None, "ground"])
@pytest.mark.parametrize("tested", [None, "folds", "train", "test"])
def test_unlabelled_bags_of_groups_in_other_parts_are_left_out(tested, background):
    labels = [None if i % 2 else "ab"[i // 2 % 2] for i in range(80)]  # a group: a bag with a label, one without
    groups, bag_names = [f"g{i // 2}" for i in range(80)], [f"n{i}" for i in range(80)]
    bags = Bags.from_lists([np.ones((2, 3))] * 80, labels, groups=groups, names=bag_names)
    split = {"train": ["train"] * 80, "test": ["train"] * 60 + ["test"] * 20}.get(tested)
    source = CustomBags("example", bags, None if split is None else np.array(split))
    parts = source.make_parts(folds=5 if tested == "folds" else None, background=background)
    left_out = source.left_out(0, 5 if tested == "folds" else None, 0, background)
    others = {*parts.val.groups, *([] if parts.test is None or tested == "test" else parts.test.groups)}
    assert {*left_out.groups} == others
    assert not left_out.bag_labels.known.any()
    everything = [*parts.present().values(), left_out]
    assert sorted(name for part in everything for name in part.names) == sorted(bag_names)
    assert len(join(everything)) == 80


def test_no_bag_is_left_out_of_given_validation_bags():
    bags = Bags.from_lists([np.ones((2, 3))] * 6, ["a", "b", None, "a", "b", "a"], groups=["g"] * 6)
    source = CustomBags("example", bags, np.array(["train"] * 4 + ["val"] * 2))
    parts = source.make_parts()
    assert len(parts.train) == 4
    assert source.left_out(0, None, 0, None) is None


def test_every_bag_is_tested_once_in_cross_validation():
    tested = []
    for fold in range(4):
        parts = custom_bags().make_parts(fold=fold, folds=4)
        assert [len(part) for part in parts] == [20, 10, 10]
        assert sum(map(len, names(parts))) == len(set.union(*names(parts))) == 40
        tested += parts.test.names.tolist()
    assert sorted(tested) == sorted(custom_bags().bags.names)
    assert names(custom_bags().make_parts(fold=0, folds=4))[1] == names(custom_bags().make_parts(fold=1, folds=4))[2]


def test_given_splits_are_used():
    split = np.array((["train"] * 6 + ["val"] * 2 + ["test"] * 2) * 4)
    parts = custom_bags(split=split).make_parts()
    assert [part.names.tolist() for part in parts] == [
        [f"n{i}" for i in np.flatnonzero(split == name)] for name in ("train", "val", "test")
    ]


def test_without_val_a_fifth_of_train_is_used_and_without_test_none():
    parts = custom_bags(split=np.array(["train"] * 40)).make_parts()
    assert (len(parts.train), len(parts.val), parts.test) == (32, 8, None)


def too_few_groups(table, make):
    return table.assign(group=make.column(table, ["p1", "p2"]))


def two_bags(table, make):
    return table[table["bag"].isin(["slide0", "slide1"])]


def a_class_in_one_small_group(table, make):
    return table.assign(group=make.column(table, ["p1", "p2", "p1", "p4"]))


@pytest.mark.parametrize(
    ("edit", "facts"),
    [
        (too_few_groups, ("2 groups", "give more", "split")),
        (two_bags, ("2 bags", "60%, 20%, 20%", "give more", "split")),
        (a_class_in_one_small_group, ()),
    ],
)
def test_check_reports_errors_of_the_division_as_train_does(tmp_path, majority, make, edit, facts):
    place = tmp_path / "bags.csv"
    edit(make.table(), make).to_csv(place, index=False)
    train_code, _, err = majority("train", place, *TRAIN, "--out", tmp_path / "run")
    check_code, out, _ = majority("check", place)
    assert (train_code, check_code) == (2, 1)
    message = err.strip().removeprefix("majority: ")
    assert f"problem: {place}: {message}" in out
    assert all(fact in message for fact in facts)


def test_four_bags_are_enough(tmp_path, succeeds, make):
    make.table(bags=4).to_csv(tmp_path / "bags.csv", index=False)
    succeeds("check", tmp_path / "bags.csv")


def test_train_prints_the_warnings_of_check(tmp_path, majority, make):
    make.table(site="north", bags=12).to_csv(tmp_path / "bags.csv", index=False)
    _, checked, _ = majority("check", tmp_path / "bags.csv")
    warnings = [line for line in checked.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == 2
    _, out, _ = majority("train", tmp_path / "bags.csv", *TRAIN, "--out", tmp_path / "run")
    assert out.splitlines()[:2] == warnings
    assert [f"warning: {text}" for text in load_source(tmp_path / "bags.csv").warnings_for(None)] == warnings


def test_a_run_without_test_bags(tmp_path, majority, refused, succeeds, make, says):
    make.table(split="train").to_csv(tmp_path / "bags.csv", index=False)
    run = tmp_path / "run"
    code, out, err = majority("train", tmp_path / "bags.csv", *TRAIN, "--out", run)
    assert (code, err) == (0, "")
    assert "there are no test bags" in out
    assert json.loads((run / "result.json").read_text())["test"] == {}
    for command in ("evaluate", "predict"):
        err = refused(command, run)
        assert says(err, "no test bags", "--all", "SOURCE")
    out = succeeds("evaluate", run, "--all")
    assert "train bags" in out
    assert "test bags" not in out


def test_cross_validation_from_the_command(tmp_path, majority, succeeds, make):
    make.table().to_csv(tmp_path / "bags.csv", index=False)
    code, out, err = majority("train", tmp_path / "bags.csv", *TRAIN, "--folds", 3, "--out", tmp_path / "runs")
    assert (code, err) == (0, "")
    assert sorted(folder.name for folder in (tmp_path / "runs").iterdir()) == ["fold0", "fold1", "fold2"]
    assert "±" in out
    succeeds("evaluate", tmp_path / "runs/fold1")
    words = ("--folds", 3, "--fold", 1, "--out", tmp_path / "runs/fold1")
    code, out, _ = majority("train", tmp_path / "bags.csv", *TRAIN, *words)
    assert "is finished" in out


def test_a_source_that_changed_since_training(tmp_path, refused, succeeds, make):
    table = make.table()
    table.to_csv(tmp_path / "bags.csv", index=False)
    succeeds("train", tmp_path / "bags.csv", *TRAIN, "--out", tmp_path / "run")
    table.loc[0, "a"] += 1
    table.to_csv(tmp_path / "bags.csv", index=False)
    assert "has changed since" in refused("evaluate", tmp_path / "run")


def test_the_background_class_does_not_count_as_wrong():
    bags = Bags.from_lists(
        [np.ones((3, 3))] * 40, ["a", "b"] * 20, instance_labels=[["a", "b", "empty"]] * 20 + [["a", "b", "c"]] * 20
    )
    source = CustomBags("example", bags)
    for background, fact in (
        (None, "40 of 120 instances (33.3%)"),
        ("empty", "20 of 120 instances"),
        ("c", "empty: 20"),
    ):
        (warning,) = source.warnings_for(background)
        assert fact in warning


@pytest.mark.parametrize(
    ("source", "choices", "what"),
    [
        (custom_bags(split=np.array(["train", "test"] * 20)), {"folds": 4}, r"example .*split column.*--folds"),
        (custom_bags(groups=["p", "p", "q", "q"] * 10), {"folds": 5}, r"example .*too few groups.*5 folds"),
        (custom_bags(), {"fold": 1}, "fold 1 without folds"),
        (custom_bags(split=np.array(["test"] * 40)), {}, "no bag in split train"),
    ],
)
def test_impossible_divisions_are_refused(source, choices, what):
    with pytest.raises(InputError, match=what):
        source.make_parts(**choices)


# ---------------------------------------------------------------------- classes of few bags


def with_rare(rare, groups=None, split=None, labels=("a", "b")):
    """40 bags of two classes, and some of further ones; each instance has the label of its bag."""
    names = [labels[i % 2] for i in range(40)] + [name for name, count in rare.items() for _ in range(count)]
    bags = Bags.from_lists(
        [np.ones((2, 3))] * len(names), names, groups=groups, instance_labels=[[n] * 2 for n in names]
    )
    return CustomBags("example", bags, split)


def test_classes_of_few_bags_take_no_part_as_a_label():
    source = with_rare({"y": 2, "z": 1, "c": 3})
    parts = source.make_parts()
    assert parts.train.classes == ("a", "b", "c")
    everything = join([*parts.present().values()])
    assert len(everything) == 46
    assert (~everything.bag_labels.known).sum() == (~parts.train.bag_labels.known).sum() == 3
    assert everything.true_classes == ("a", "b", "c", "y", "z")
    assert everything.class_counts().sum(axis=0).tolist() == [40, 40, 6, 4, 2]
    (warning,) = source.warnings_for(None)
    for fact in ("y, z", "fewer than 3 bags", "--min-bags 1"):
        assert fact in warning
    assert source.warnings_for(None, min_bags=1) == []
    assert source.make_parts(min_bags=1).train.classes == ("a", "b", "c", "y", "z")
    assert source.make_parts(min_bags=4).train.classes == ("a", "b")


def test_labels_that_name_a_rare_class_beside_others_are_left_out():
    names = ["a", "b"] * 10 + ["a|z", "z"]
    seconds = ["b", "a"] * 10 + ["", "a"]
    bags = Bags.from_lists([np.ones((3, 3))] * 22, names, second_labels=seconds)
    train = CustomBags("example", bags).make_parts().train
    unlabelled = ~train.bag_labels.known
    assert unlabelled.sum() == 2
    assert not train.bag_labels.runner_up[unlabelled].any()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("grouped", [False, True])
def test_what_there_is_of_a_class_goes_into_training_first(seed, grouped):
    groups = None if not grouped else [f"g{i // 4}" for i in range(40)] + ["y0", "y0", "z0"]
    for split in (None, np.array(["train"] * 43)):
        parts = with_rare({"y": 2, "z": 1}, groups, split).make_parts(data_seed=seed, min_bags=1)
        assert {*parts.train.labels.tolist()} == {0, 1, 2, 3}


def test_a_fold_may_lack_a_class(tmp_path, succeeds, make, says):
    table = make.table()
    table.loc[table["bag"].isin(["slide0", "slide2", "slide4"]), ["bag_label", "label"]] = "9"
    table["group"] = np.where(table["bag_label"] == "9", "one", table["bag"])
    table.to_csv(tmp_path / "bags.csv", index=False)
    out = succeeds("train", tmp_path / "bags.csv", *TRAIN, "--folds", 3, "--out", tmp_path / "runs")
    assert says(out, "warning: ", "no training bag of this fold has the label 9", "(15 test instances)", "wrong")
