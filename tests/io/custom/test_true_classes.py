"""The column `label`, filled for all, some or no instances: it is evaluated and changes nothing else."""

import json
import re

import pandas as pd
from safetensors.torch import load_file

from majority import load_source

TRAIN = ("--recipe", "quick", "--method", "adjusted-mean", "--epochs", 3, "--device", "cpu")
SPLITS = ["train", "train", "train", "train", "val", "val", "test", "test"]


def known_only_in_test(make):
    """Two concatenated tables, of which the training table has no column label."""
    table = make.table(bags=40)
    table["split"] = make.column(table, SPLITS)
    return pd.concat([table[table["split"] != "test"].drop(columns="label"), table[table["split"] == "test"]])


def flatten(text):
    """Text without line breaks and repeated spaces, as a table wraps long cells."""
    return " ".join(text.split())


def test_training_does_not_depend_on_instance_labels(tmp_path, succeeds, make):
    full = make.table()
    tables = {
        "full": full,
        "none": full.drop(columns="label"),
        "empty": full.assign(label=""),
        "partial": full.assign(label=full["label"].where(full.index % 3 == 0)),
        "another class": full.assign(label=full["label"].where(full.index % 3 > 0, "99")),
    }
    weights, configs = {}, {}
    for name, table in tables.items():
        place, run = tmp_path / "bags.csv", tmp_path / name
        table.to_csv(place, index=False)
        succeeds("train", place, *TRAIN, "--out", run)
        weights[name] = load_file(run / "best.safetensors")
        configs[name] = json.loads((run / "config.json").read_text())
    for name in tables:
        assert configs[name] == configs["none"], name
        assert weights[name].keys() == weights["none"].keys()
        assert all((weights[name][key] == value).all() for key, value in weights["none"].items()), name


def test_results_cover_only_instances_with_a_known_class(tmp_path, majority, succeeds, make):
    place, run, table = tmp_path / "bags.csv", tmp_path / "run", known_only_in_test(make)
    first = table.index[table["split"] == "test"][0]
    table.loc[first, "label"] = None
    table.to_csv(place, index=False)
    out = succeeds("check", place)
    assert re.search(r"49 of 200 instances; .*: 9 │", flatten(out))
    assert "60% to 60% of a bag" in flatten(out)
    assert "0.0% of 9 bags" in flatten(out)
    counts = "instance figures are .*49 of 50 instances"
    code, out, err = majority("train", place, *TRAIN, "--out", run)
    assert (code, err) == (0, "")
    assert re.search(f"note: {counts}", flatten(out))
    result = json.loads((run / "result.json").read_text())
    assert (result["test"]["known_instances"], result["test"]["known_bags"]) == (49, 9)
    assert "instance_accuracy" not in result["val"]
    assert re.search(counts, (run / "report.html").read_text(), re.IGNORECASE)
    for source in ((), (place,)):
        assert "with a known class" in flatten(majority("evaluate", run, *source)[1])


def test_without_a_completely_known_bag_no_majority_is_reported(tmp_path, majority, succeeds, make):
    place, run, table = tmp_path / "bags.csv", tmp_path / "run", make.table()
    table.assign(label=table["label"].where(table.index % 5 > 0)).to_csv(place, index=False)
    _, out, _ = majority("check", place)
    assert re.search(r"120 of 150 instances; .*: 0 │", flatten(out))
    assert "of a bag" not in out
    assert "0 problems, 0 warnings" in out
    out = succeeds("train", place, *TRAIN, "--out", run)
    assert "instances with a known class" in flatten(out)
    assert "overestimation" not in out
    assert "Overestimation of" not in (run / "report.html").read_text()


def test_a_true_class_that_is_no_bag_label_is_warned_of(tmp_path, refused, succeeds, make, says):
    place, other, run, table = tmp_path / "bags.csv", tmp_path / "other.csv", tmp_path / "run", make.table()
    table.to_csv(place, index=False)
    table.assign(label=table["label"].where(table.index > 1, "99")).to_csv(other, index=False)
    facts = ("warning: the class of 2 of 150 instances (1.3%)", "99: 2", "counts as wrong")
    out = succeeds("check", other)
    assert says(out, *facts, "--background")
    assert load_source(other).bags.classes == ("7", "12")
    out = succeeds("train", place, *TRAIN, "--out", run)
    assert "warning: the class" not in flatten(out)
    out = succeeds("evaluate", run, other)
    assert says(out, *facts, "not a class of the run")
    table.assign(label=[str(98 + row % 2) for row in table.index]).to_csv(other, index=False)
    err = refused("evaluate", run, other)
    assert says(err, "(98, 99)", "(7, 12)")


def test_a_background_may_be_given_by_instance_labels(tmp_path, succeeds, make):
    place, run, table = tmp_path / "bags.csv", tmp_path / "run", make.table(size=7)
    table.loc[table.index % 7 == 6, "label"] = "empty"
    table.to_csv(place, index=False)
    out = succeeds("train", place, *TRAIN, "--method", "log-mean", "--background", "empty", "--out", run)
    assert "counts as wrong" not in out
    test = json.loads((run / "result.json").read_text())["test"]
    assert test["background_recall"] is not None
    for source in ((), (place,)):
        out = succeeds("evaluate", run, *source)
        assert "background recall" in out
        assert "counts as wrong" not in out


def test_methods_that_need_instance_labels_refuse_and_leave_no_files(tmp_path, refused, make, says):
    method = "proportion"
    place, table = tmp_path / "bags.csv", make.table()
    table["split"] = make.column(table, ["train", "train", "val", "val"])
    table.assign(label=table["label"].where(table["split"] == "train")).to_csv(place, index=False)
    err = refused("train", place, *TRAIN, "--method", method, "--out", tmp_path / "run")
    assert says(err, f"method {method} ", "instance labels")
    table.assign(label=table["label"].where(table.index % 2 == 0)).to_csv(place, index=False)
    err = refused("train", place, *TRAIN, "--method", method, "--out", tmp_path / "run")
    assert says(err, f"method {method} ", "of 80 instances 40 have none")
    assert not (tmp_path / "run" / "config.json").exists()


def test_instance_labels_are_enough_to_evaluate(tmp_path, majority, make, says):
    place, other, run, table = tmp_path / "bags.csv", tmp_path / "other.csv", tmp_path / "run", make.table()
    table.to_csv(place, index=False)
    assert majority("train", place, *TRAIN, "--out", run)[0] == 0

    def read_rows(out):
        return {line.split("│")[1].strip(): line.split("│")[2].strip() for line in out.split("\n") if "│" in line}

    everything = read_rows(majority("evaluate", run, place)[1])
    table.drop(columns="bag_label").to_csv(other, index=False)
    code, out, err = majority("evaluate", run, other)
    assert (code, err) == (0, "")
    of_instances = ("instance accuracy", "macro F1", "mean IoU", "calibration error", "bags", "instances")
    assert read_rows(out) == {name: everything[name] for name in of_instances}
    table.drop(columns="bag_label").assign(label=table["label"].where(table.index > 9)).to_csv(other, index=False)
    assert says(majority("evaluate", run, other)[1], "note: instance figures", "140 of 150 instances")
    table.drop(columns=["bag_label", "label"]).to_csv(other, index=False)
    code, _, err = majority("evaluate", run, other)
    assert code == 2
    assert "there is no column bag_label" in err
    assert "there is no column bag_label" in majority("train", other, *TRAIN)[2]


def test_only_the_background_may_be_known(tmp_path, succeeds, make):
    table = make.table()
    table["label"] = table["label"].where(table.index % 5 == 0, "")
    table.loc[table["label"] != "", "label"] = "void"
    table.to_csv(tmp_path / "bags.csv", index=False)
    options = [*TRAIN, "--method", "log-mean", "--background", "void", "--out", tmp_path / "run"]
    succeeds("train", tmp_path / "bags.csv", *options)
    figures = json.loads((tmp_path / "run/result.json").read_text())["test"]
    assert 0 < figures["known_instances"] < figures["instances"]
