"""Every kind of label through the commands: check, train, evaluate, report, predict."""

import csv
import json

import numpy as np
import pandas as pd
import pytest

from majority import train

TRAIN = ("--recipe", "quick", "--method=log-mean", "--epochs", "2", "--device", "cpu")


def write_table(path):
    """Sixty bags: ten without a label, two of several, half of the others with a runner-up."""
    rng, rows = np.random.default_rng(0), []
    for bag in range(60):
        winner, second = "abc"[bag % 3], "abc"[(bag + 1) % 3]
        label = "" if bag < 10 else f"{winner}|{second}" if bag in (10, 11) else winner
        for name in [winner] * 5 + [second] * 2 + ["c"]:
            features = (3 * np.eye(3)["abc".index(name)] + rng.normal(size=3)).round(3)
            rows.append((f"b{bag}", label, second if bag >= 30 else "", *features))
    table = pd.DataFrame(rows, columns=["bag", "bag_label", "second_label", "f0", "f1", "f2"])
    table.to_csv(path, index=False)
    return table


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labels")
    write_table(folder / "bags.csv")
    settings = {"training.epochs": 2}
    options = {"recipe": "quick", "method": "log-mean", "settings": settings, "device": "cpu", "verbose": False}
    train(folder / "bags.csv", out=folder / "run", **options)
    return folder


def test_check_counts_every_kind(trained, succeeds):
    out = succeeds("check", trained / "bags.csv")
    assert "2 bags with one of several labels (a|b), 30 bags with a runner-up, 10 bags without a label" in out


def test_training_uses_all_but_the_unlabelled_bags_for_its_parts(trained):
    result = json.loads((trained / "run/result.json").read_text())
    bags = {row["name"]: row["bags"] for row in result["parts"]}
    assert sum(bags.values()) == 60
    assert bags["validation"] == bags["test"] == 10
    assert "runner_up_accuracy" in result["test"]


def test_training_says_how_many_unlabelled_bags_it_leaves_out(tmp_path, succeeds):
    table = write_table(tmp_path / "bags.csv")
    table["group"] = table["bag"].str[1:].astype(int) % 30  # each unlabelled bag has the group of a labelled one
    table.to_csv(tmp_path / "bags.csv", index=False)
    out = succeeds("train", tmp_path / "bags.csv", *TRAIN, "--out", tmp_path / "run")
    parts = json.loads((tmp_path / "run/result.json").read_text())["parts"]
    left_out = 60 - sum(part["bags"] for part in parts)
    assert left_out > 1
    assert f"{left_out} bags without a label left out: " in out

    words = ("train", tmp_path / "bags.csv", *TRAIN, "--refit", "--out", tmp_path / "again")
    out = succeeds(*words)
    assert f"{left_out} bags without a label left out until" in out
    assert "once more on all 60 bags" in out
    assert json.loads((tmp_path / "again/result.json").read_text())["refit_bags"] == 60
    succeeds("evaluate", tmp_path / "again")


def test_evaluate_report_and_predict_take_them(trained, succeeds):
    source = trained / "bags.csv"
    assert "labelled bags" in succeeds("evaluate", trained / "run", source)
    succeeds("report", trained / "run", source)
    page = (trained / "run/report-bags.html").read_text()
    assert "10 bags without a label come last" in page
    assert ", second <span" in page
    assert "</span> or " in page or " or \n<span" in page
    succeeds("predict", trained / "run", source, "--bags", "--out", trained / "bags-predicted.csv")
    with (trained / "bags-predicted.csv").open() as file:
        assert len([*csv.DictReader(file)]) == 60


def test_a_label_that_the_run_does_not_know_is_left_out(trained, succeeds):
    table = pd.read_csv(trained / "bags.csv", dtype=str, keep_default_na=False)
    table.loc[table["bag"] == "b10", "bag_label"] = "a|z"
    table.loc[table["bag"] == "b40", "second_label"] = "y"
    table.to_csv(trained / "other.csv", index=False)
    out = succeeds("evaluate", trained / "run", trained / "other.csv")
    assert "labels that the run does not know: 2 (e.g. a|z of bag b10)" in out
