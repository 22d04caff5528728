"""The division into training, validation and test bags: given, random, or by folds; groups are never divided."""

import json
from dataclasses import replace

import numpy as np
import pytest

from majority import Bags, InputError, load_source
from majority.data.joining import join
from majority.io import CustomBags

TRAIN = ("--recipe", "quick", "--epochs", 2, "--device", "cpu")


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
    left_out = source.left_out(parts, background)
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
    assert source.left_out(parts) is None


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


def test_folds_and_validation_bags_depend_on_the_data_seed():
    without_val = custom_bags(split=np.array(["train"] * 30 + ["test"] * 10))
    for source, folds in ((without_val, None), (custom_bags(), 5)):
        one, again, other = (names(source.make_parts(folds=folds, data_seed=seed)) for seed in (1, 1, 2))
        assert one == again != other


def test_a_class_without_training_bags_is_refused():
    made = Bags.from_lists([np.ones((2, 3))] * 9, ["a", "b", "a", "b", "a", "b", "a", "b", "c"])
    split = np.array(["train"] * 4 + ["val"] * 4 + ["test"])
    with pytest.raises(InputError, match=r"no training bag has the label c\b.*split column"):
        CustomBags("example", made, split).make_parts()


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(10))
def test_a_class_with_one_bag_is_in_the_training_part(seed):
    made = Bags.from_lists([np.ones((2, 3))] * 12, ["a", "b"] * 5 + ["y", "z"])
    for parts in (
        CustomBags("example", made).make_parts(data_seed=seed),
        CustomBags("example", made, np.array(["train"] * 12)).make_parts(data_seed=seed),
    ):
        assert {0, 1, 2, 3} == set(parts.train.labels)


def too_few_groups(table, make):
    return table.assign(group=make.column(table, ["p1", "p2"]))


def two_bags(table, make):
    return table[table["bag"].isin(["slide0", "slide1"])]


def a_class_in_one_small_group(table, make):
    return table.assign(group=make.column(table, ["p1", "p2", "p1", "p4"]))


@pytest.mark.parametrize("edit", [too_few_groups, two_bags, a_class_in_one_small_group])
def test_check_reports_errors_of_the_division_as_train_does(tmp_path, majority, make, edit):
    place = tmp_path / "bags.csv"
    edit(make.table(), make).to_csv(place, index=False)
    train_code, _, err = majority("train", place, *TRAIN, "--out", tmp_path / "run")
    check_code, out, _ = majority("check", place)
    assert (train_code, check_code) == (2, 1)
    message = err.strip().removeprefix("majority: ")
    assert f"problem: {place}: {message}" in out


def test_too_few_bags_are_refused_with_a_sufficient_number(tmp_path, majority, make, says):
    place, table = tmp_path / "bags.csv", make.table()
    two_bags(table, make).to_csv(place, index=False)
    code, out, _ = majority("check", place)
    assert code == 1
    assert says(
        out, "2 bags", "train (60%)", "val (20%)", "test (20%)", "at least 2 bags of each label", "column split"
    )
    table[table["bag"].isin([f"slide{i}" for i in range(4)])].to_csv(place, index=False)
    assert majority("check", place)[0] == 0
    table.assign(group=make.column(table, ["p1", "p2"])).to_csv(place, index=False)
    assert says(majority("check", place)[1], "2 groups", "at least 3 groups", "column split")


def test_train_prints_the_warnings_of_check(tmp_path, majority, make):
    make.table(site="north", bags=12).to_csv(tmp_path / "bags.csv", index=False)
    _, checked, _ = majority("check", tmp_path / "bags.csv")
    warnings = [line for line in checked.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == 3
    _, out, _ = majority("train", tmp_path / "bags.csv", *TRAIN, "--out", tmp_path / "run")
    assert out.splitlines()[:3] == warnings
    assert [f"warning: {text}" for text in load_source(tmp_path / "bags.csv").warnings] == warnings


def test_folds_are_refused_if_splits_are_given():
    with pytest.raises(InputError, match=r"example .*split column.*--folds"):
        custom_bags(split=np.array(["train", "test"] * 20)).make_parts(folds=4)


def test_warnings_of_the_source_are_printed_once_for_all_folds(tmp_path, majority, make):
    make.table(remark="text").to_csv(tmp_path / "bags.csv", index=False)
    words = ("train", tmp_path / "bags.csv", *TRAIN, "--folds", 3, "--out", tmp_path / "runs")
    for training in ("recipe quick; ", " is finished "):  # the second time, no fold is trained
        _, out, _ = majority(*words)
        assert out.count("warning: column remark ") == 1
        assert out.count(training) == 3


def test_more_folds_than_groups():
    with pytest.raises(InputError, match=r"example .*too few groups.*5 folds"):
        custom_bags(groups=["p", "p", "q", "q"] * 10).make_parts(folds=5)


def test_a_run_without_test_bags(tmp_path, majority, make, says):
    make.table(split="train").to_csv(tmp_path / "bags.csv", index=False)
    run = tmp_path / "run"
    code, out, err = majority("train", tmp_path / "bags.csv", *TRAIN, "--out", run)
    assert (code, err) == (0, "")
    assert "there are no test bags" in out
    assert json.loads((run / "result.json").read_text())["test"] == {}
    for command in ("evaluate", "predict"):
        code, _, err = majority(command, run)
        assert code == 2
        assert says(err, "no test bags", "--all", "SOURCE")
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
    assert " changed " in out.splitlines()[-5], "--folds shortens no table"
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


def test_defaults_of_a_benchmark_run_are_recorded(tmp_path, majority):
    words = ("--bags", 8, "--bag-size", 8, *TRAIN, "--out", tmp_path / "run")
    assert majority("train", "digits", *words)[0] == 0
    assert json.loads((tmp_path / "run/result.json").read_text())["scenario"] == "various"
    data = json.loads((tmp_path / "run/config.json").read_text())["run"]["bags"]
    assert (data["scenario"], data["ties"], data["fold"]) == ("various", "lowest", 0)
    code, out, _ = majority("train", "digits", "--scenario", "various", *words)
    assert code == 0
    assert "is finished" in out


def test_load_source_reads_custom_bags(tmp_path, make):
    make.folder(tmp_path)
    assert isinstance(load_source(tmp_path), CustomBags)
    assert isinstance(load_source(str(tmp_path)), CustomBags)


def test_a_test_split_may_lack_a_class(tmp_path, majority, make, says):
    table = make.table()
    table["split"] = make.column(table, ["train", "train", "val", "val", "test", "train"])
    assert set(table["bag_label"][table["split"] == "test"]) == {"7"}
    table.to_csv(tmp_path / "bags.csv", index=False)
    code, out, _ = majority("check", tmp_path / "bags.csv")
    assert code == 0, out
    assert says(out, "warning: ", "split test", "label 12")
    code, out, err = majority("train", tmp_path / "bags.csv", *TRAIN, "--out", tmp_path / "run")
    assert code == 0, err
    assert "test bags of fold 0" in out


def test_custom_bags_are_a_source(tmp_path, make):
    source = custom_bags()
    assert (source.name, source.kind, source.columns, source.paths) == ("example", "", None, None)
    assert (source.image_files, source.numbered_within_bags) == (None, False)
    make.images(tmp_path, pixels=(8, 6)).to_csv(tmp_path / "bags.csv", index=False)
    assert str(load_source(tmp_path / "bags.csv").image_files) == "8x6, colour"
    make.folder(tmp_path / "slides")
    assert load_source(tmp_path / "slides").numbered_within_bags


def test_the_warning_about_a_background_class_is_left_out():
    source = replace(custom_bags(), warnings=("one", "two"), class_warnings={"empty": "two"})
    assert source.warnings_for(None) == ["one", "two"]
    assert source.warnings_for("other") == ["one", "two"]
    assert source.warnings_for("empty") == ["one"]


@pytest.mark.parametrize("option", [{"scenario": "small"}, {"bags": 4}, {"classes": 2}, {"winner_ratio": 2.0}])
def test_options_of_a_labelled_set_are_refused(option):
    (name,) = option
    with pytest.raises(InputError, match=rf"example.*leave out {name} \(--{name.replace('_', '-')}\)"):
        custom_bags().make_parts(**option)
    assert len(custom_bags().make_parts(**dict.fromkeys(option)).train) == 24
