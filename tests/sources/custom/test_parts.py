"""Which bags are trained on, validate and test: given, dealt, or folded; groups are never cut."""

import json

import numpy as np
import pytest

from majority import Bags, InputError, load_source
from majority.sources import CustomBags

TRAIN = ("--recipe", "quick", "--epochs", 2, "--device", "cpu")


def own(bags=40, groups=None, split=None):
    labels = ["a", "b"] * (bags // 2)
    made = Bags.from_lists([np.ones((2, 3))] * bags, labels, groups=groups, names=[f"n{i}" for i in range(bags)])
    return CustomBags("example", made, split)


def names(parts):
    return [set(part.names) for part in parts]


def test_dealt_by_label_and_seed():
    parts = own().make_parts()
    assert [np.bincount(part.labels).tolist() for part in parts] == [[12, 12], [4, 4], [4, 4]]
    assert names(parts) == names(own().make_parts())
    assert names(parts) != names(own().make_parts(data_seed=1))


def test_groups_are_never_cut():
    source = own(groups=[f"g{i // 4}" for i in range(40)])
    for parts in (source.make_parts(), source.make_parts(folds=5, fold=2)):
        groups = [set(part.groups) for part in parts]
        assert sum(map(len, groups)) == len(set.union(*groups)) == 10


def test_every_bag_is_tested_once_in_cross_validation():
    tested = []
    for fold in range(4):
        parts = own().make_parts(fold=fold, folds=4)
        assert [len(part) for part in parts] == [20, 10, 10]
        assert sum(map(len, names(parts))) == len(set.union(*names(parts))) == 40
        tested += parts.test.names.tolist()
    assert sorted(tested) == sorted(own().bags.names)
    assert names(own().make_parts(fold=0, folds=4))[1] == names(own().make_parts(fold=1, folds=4))[2]


def test_given_splits_are_kept():
    split = np.array((["train"] * 6 + ["val"] * 2 + ["test"] * 2) * 4)
    parts = own(split=split).make_parts()
    assert [part.names.tolist() for part in parts] == [
        [f"n{i}" for i in np.flatnonzero(split == name)] for name in ("train", "val", "test")
    ]


def test_without_val_a_fifth_of_train_and_without_test_none():
    parts = own(split=np.array(["train"] * 40)).make_parts()
    assert (len(parts.train), len(parts.val), parts.test) == (32, 8, None)


def test_folds_and_validation_bags_are_dealt_by_the_data_seed():
    without_val = own(split=np.array(["train"] * 30 + ["test"] * 10))
    for source, folds in ((without_val, None), (own(), 5)):
        one, again, other = (names(source.make_parts(folds=folds, data_seed=seed)) for seed in (1, 1, 2))
        assert one == again != other


def test_a_class_that_could_not_be_trained():
    made = Bags.from_lists([np.ones((2, 3))] * 9, ["a", "b", "a", "b", "a", "b", "a", "b", "c"])
    split = np.array(["train"] * 4 + ["val"] * 4 + ["test"])
    with pytest.raises(InputError, match="no training bag has the label c: give more bags of it"):
        CustomBags("example", made, split).make_parts()


@pytest.mark.parametrize("seed", range(10))
def test_a_class_with_one_bag_is_trained_on(seed):
    made = Bags.from_lists([np.ones((2, 3))] * 12, ["a", "b"] * 5 + ["y", "z"])
    for parts in (
        CustomBags("example", made).make_parts(data_seed=seed),
        CustomBags("example", made, np.array(["train"] * 12)).make_parts(data_seed=seed),
    ):
        assert {0, 1, 2, 3} == set(parts.train.labels)


def groups_that_cannot_be_dealt(table, make):
    return table.assign(group=make.column(table, ["p1", "p2"]))


def two_bags(table, make):
    return table[table["bag"].isin(["slide0", "slide1"])]


def a_class_in_one_small_group(table, make):
    return table.assign(group=make.column(table, ["p1", "p2", "p1", "p4"]))


@pytest.mark.parametrize("edit", [groups_that_cannot_be_dealt, two_bags, a_class_in_one_small_group])
def test_check_names_what_the_dealing_of_train_refuses(tmp_path, majority, make, edit):
    place = tmp_path / "bags.csv"
    edit(make.table(), make).to_csv(place, index=False)
    train_code, _, err = majority("train", place, *TRAIN, "--out", tmp_path / "run")
    check_code, out, _ = majority("check", place)
    assert (train_code, check_code) == (2, 1)
    words = err.strip().removeprefix("majority: ")
    assert f"problem: {place}: {words}" in out


def test_train_says_the_warnings_of_check(tmp_path, majority, make):
    make.table(site="north", bags=12).to_csv(tmp_path / "bags.csv", index=False)
    _, checked, _ = majority("check", tmp_path / "bags.csv")
    warnings = [line for line in checked.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == 3
    _, out, _ = majority("train", tmp_path / "bags.csv", *TRAIN, "--out", tmp_path / "run")
    assert out.splitlines()[:3] == warnings
    assert [f"warning: {text}" for text in load_source(tmp_path / "bags.csv").warnings] == warnings


def test_folds_and_given_splits_exclude_each_other():
    with pytest.raises(InputError, match="names its splits itself"):
        own(split=np.array(["train", "test"] * 20)).make_parts(folds=4)


def test_more_folds_than_groups():
    with pytest.raises(InputError, match="too few groups for 5 folds"):
        own(groups=["p", "p", "q", "q"] * 10).make_parts(folds=5)


def test_a_run_without_test_bags_says_so(tmp_path, majority, make):
    make.table(split="train").to_csv(tmp_path / "bags.csv", index=False)
    run = tmp_path / "run"
    code, out, err = majority("train", tmp_path / "bags.csv", *TRAIN, "--out", run)
    assert (code, err) == (0, "")
    assert "there are no test bags" in out
    assert json.loads((run / "result.json").read_text())["test"] == {}
    for command in ("evaluate", "predict"):
        code, _, err = majority(command, run)
        assert code == 2
        assert "has no test bags: its source marks none; take --all, or give a SOURCE" in err
    code, out, _ = majority("evaluate", run, "--all")
    assert code == 0
    assert "train bags" in out
    assert "test bags" not in out


def test_cross_validation_from_the_command(tmp_path, majority, make):
    make.table().to_csv(tmp_path / "bags.csv", index=False)
    code, out, err = majority("train", tmp_path / "bags.csv", *TRAIN, "--folds", 3, "--out", tmp_path / "runs")
    assert (code, err) == (0, "")
    assert sorted(folder.name for folder in (tmp_path / "runs").iterdir()) == ["fold0", "fold1", "fold2"]
    assert "±" in out
    assert " changed " in out.splitlines()[-5], "--folds shortens nothing"
    code, out, _ = majority("evaluate", tmp_path / "runs/fold1")
    assert code == 0
    words = ("--folds", 3, "--fold", 1, "--out", tmp_path / "runs/fold1")
    code, out, _ = majority("train", tmp_path / "bags.csv", *TRAIN, *words)
    assert "is finished" in out


def test_a_source_that_changed_since_training(tmp_path, majority, make):
    table = make.table()
    table.to_csv(tmp_path / "bags.csv", index=False)
    assert majority("train", tmp_path / "bags.csv", *TRAIN, "--out", tmp_path / "run")[0] == 0
    table.loc[0, "a"] += 1
    table.to_csv(tmp_path / "bags.csv", index=False)
    code, _, err = majority("evaluate", tmp_path / "run")
    assert code == 2
    assert "has changed since" in err


def test_benchmark_runs_are_as_they_were(tmp_path, majority):
    words = ("--bags", 8, "--bag-size", 8, *TRAIN, "--out", tmp_path / "run")
    assert majority("train", "digits", *words)[0] == 0
    assert json.loads((tmp_path / "run/result.json").read_text())["scenario"] == "various"
    data = json.loads((tmp_path / "run/config.json").read_text())["data"]
    assert (data["scenario"], data["ties"], data["fold"]) == ("various", "lowest", 0)
    code, out, _ = majority("train", "digits", "--scenario", "various", *words)
    assert code == 0
    assert "is finished" in out


def test_load_source_reads_own_bags(tmp_path, make):
    make.folder(tmp_path)
    assert isinstance(load_source(tmp_path), CustomBags)
    assert isinstance(load_source(str(tmp_path)), CustomBags)


def test_a_test_split_may_lack_a_class(tmp_path, majority, make):
    table = make.table()
    table["split"] = make.column(table, ["train", "train", "val", "val", "test", "train"])
    assert set(table["bag_label"][table["split"] == "test"]) == {"7"}
    table.to_csv(tmp_path / "bags.csv", index=False)
    code, out, _ = majority("check", tmp_path / "bags.csv")
    assert code == 0, out
    assert "warning: no bag in split test has the label 12: the test figures say little of it" in out
    code, out, err = majority("train", tmp_path / "bags.csv", *TRAIN, "--out", tmp_path / "run")
    assert code == 0, err
    assert "test bags of fold 0" in out
