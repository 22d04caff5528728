"""`majority review`, corrected labels, and benchmark bags with wrong labels."""

import csv
import json
import re

import numpy as np
import pandas as pd
import pytest

import majority as package
from majority import load_source
from majority.errors import InputError
from majority.log import no_log
from majority.run.config import RunConfig
from majority.run.data import read_data, with_files
from majority.run.review import review_run, write_review
from majority.run.study.results import read_results, setting_of

OPTIONS = {"recipe": "quick", "method": "log-mean", "device": "cpu", "verbose": False}
QUICK = OPTIONS | {"settings": {"training.epochs": 20, "assumed_wrong": 0}}
SHORT = ["--recipe", "quick", "--method", "log-mean", "--epochs", "1", "--device", "cpu"]
WRONG = {"bag3": "b", "bag10": "c", "bag20": "a"}  # given instead of a, b, c


def write_table(path):
    """48 bags of three well separated classes; three labels are wrong."""
    rng = np.random.default_rng(0)
    rows = ["bag,bag_label,u,v,w"]
    for bag in range(48):
        name, label = f"bag{bag}", bag % 3
        votes = 12 - bag % 4 * 2
        true = np.append(np.repeat(label, votes), (label + 1 + np.arange(12 - votes) % 2) % 3)
        for instance in true:
            values = ",".join(f"{value:.4f}" for value in 4 * np.eye(3)[instance] + rng.normal(size=3))
            rows.append(f"{name},{WRONG.get(name, 'abc'[label])},{values}")
    path.write_text("\n".join(rows) + "\n")


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def parts_of(source, log=no_log, **options):
    return read_data(with_files(RunConfig.from_options(str(source), **options)), log=log).parts


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("review")
    write_table(place / "bags.csv")
    package.train(place / "bags.csv", **QUICK, out=place / "run")
    write_review(place / "review.csv", review_run(place / "run", device="cpu"))
    return place


def test_the_bags_with_wrong_labels_are_listed_first(folder):
    rows = read(folder / "review.csv")
    assert {row["bag"] for row in rows[:3]} == set(WRONG)
    assert all(row["suggested_label"] == "abc"[int(row["bag"][3:]) % 3] for row in rows[:3])
    certainty = [float(row["p(wrong)"]) for row in rows]
    assert certainty == sorted(certainty, reverse=True)
    assert all(row["corrected_label"] == "" for row in rows)


def test_the_page_of_these_bags_shows_them(folder, succeeds):
    succeeds("report", folder / "run", folder / "bags.csv", "--device", "cpu")
    page = (folder / "run" / "report-bags.html").read_text()
    assert all(f"<b>bag {name}</b>" in page.split('id="suspicious"')[1] for name in WRONG)


@pytest.mark.parametrize("column", [None, "label", "bag_label"])
def test_bags_without_labels_are_refused_with_the_cure_of_this_command(folder, tmp_path, majority, column):
    table = pd.read_csv(folder / "bags.csv").drop(columns="bag_label")
    if column:  # the class of each instance is no label of a bag
        table[column] = {"label": "a", "bag_label": ""}[column]
    table.to_csv(tmp_path / "new.csv", index=False)
    words = ("review", folder / "run", tmp_path / "new.csv", "--out", tmp_path / "r.csv", "--device", "cpu")
    code, _, error = majority(*words)
    facts = (
        ["no bag has a label", "label of each bag"]
        if column == "bag_label"
        else ["no column bag_label", "--label-column"]
    )
    assert code == 2
    assert all(fact in error for fact in ["new.csv", *facts])
    assert not any(f"majority {other}" in error for other in ("evaluate", "predict", "report", "check"))
    assert not (tmp_path / "r.csv").exists()


def test_each_bag_of_a_cross_validation_is_judged_by_the_fold_that_tests_it(folder, succeeds):
    out = folder / "folds"
    package.train(folder / "bags.csv", **QUICK, folds=3, out=out)
    assert "of 48 labelled bags" in succeeds("review", out, "--out", folder / "by-fold.csv", "--device", "cpu")
    rows = read(folder / "by-fold.csv")
    shown = re.findall("<b>bag (.*?)</b>", (folder / "by-fold.html").read_text())
    assert {*WRONG} <= {*shown} == {row["bag"] for row in rows}
    for row in rows:
        fold = int(row["part"].removeprefix("fold"))
        assert row["bag"] in parts_of(folder / "bags.csv", folds=3, fold=fold).test.names


def test_corrected_labels_go_back_into_training(folder):
    """The run keeps the corrections, not the file; every bag stays in its part."""
    table = pd.read_csv(folder / "review.csv")
    table["corrected_label"] = table["suggested_label"].where(table["bag"].isin(WRONG), "")
    table.to_csv(folder / "corrected.csv", index=False)
    before, after = (parts_of(folder / "bags.csv", labels=labels) for labels in (None, str(folder / "corrected.csv")))
    for part in ("train", "val", "test"):
        one, other = getattr(before, part), getattr(after, part)
        assert one.names.tolist() == other.names.tolist()
        changed = {one.names[bag] for bag in np.flatnonzero(one.labels != other.labels)}
        assert changed == {*WRONG} & {*one.names.tolist()}

    class Remove(package.Callback):
        def on_fit_start(self, *_):
            (folder / "corrected.csv").unlink(missing_ok=True)

    labels = str(folder / "corrected.csv")
    run = package.train(folder / "bags.csv", **QUICK, labels=labels, callbacks=[Remove()], out=folder / "again")
    corrections = json.loads((run.folder / "config.json").read_text())["run"]["bags"]["corrections"]
    assert corrections == {bag: "abc"[int(bag[3:]) % 3] for bag in WRONG}
    second = review_run(run.folder, device="cpu")
    assert not {*WRONG} & {second.parts[one.part].bag_name(one.bag) for one in second.suspicions}


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("bag,corrected_label\nbag3,a\nnowhere,b\n", ["nowhere"]),
        ("bag,corrected_label\nbag4,\nbag3,oak\n", ["oak", "bag3", "a, b, c"]),
        ("bag,corrected_label\nbag3,A\n", ["bag3", "A"]),
        ("bag,corrected_label\nbag3,a|a\n", ["bag3", "a|a", "once"]),
        ("bag,bag_label\nbag3,a\n", ["corrected_label"]),
        ("bag,corrected_label\nbag3,\n", ["corrects nothing"]),
        (
            "\n".join(["bag,corrected_label", *(f"bag{i},a" for i in (3, *range(1, 48, 3)))]),
            ["no training bag", "label b"],
        ),
        ("bag,corrected_label\nbag3,a\nbag3,c\n", ["row 3", "bag3", "twice"]),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(folder, tmp_path, text, facts):
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(InputError) as error:
        parts_of(folder / "bags.csv", labels=str(tmp_path / "labels.csv"))
    for fact in ["labels.csv", *facts]:
        assert fact in str(error.value)


def test_a_file_of_labels_is_not_for_benchmark_bags(tmp_path):
    with pytest.raises(InputError, match=r"labels\.csv.*winner"):
        RunConfig.from_options("digits", labels=str(tmp_path / "labels.csv"))


def test_benchmark_bags_with_wrong_labels():
    source = load_source("digits")
    plain, wrong = source.make_parts(bags=80), source.make_parts(bags=80, wrong_labels=0.25)
    again = source.make_parts(bags=80, wrong_labels=0.25)
    for part, changed in {"train": 20, "val": 5, "test": 0}.items():
        one, other = getattr(plain, part), getattr(wrong, part)
        assert (one.labels != other.labels).sum() == changed
        assert np.array_equal(one.index, other.index)
        assert np.array_equal(other.labels, getattr(again, part).labels)
    ranked = source.make_parts(bags=80, wrong_labels=0.25, labels="top2").train
    assert (ranked.bag_labels.seconds[ranked.labels != plain.train.labels] == -1).all()
    with pytest.raises(InputError, match="wrong labels"):
        source.make_parts(wrong_labels=1.5)


def test_a_run_shows_how_many_labels_were_corrected_in_which_parts(folder, majority, succeeds):
    (folder / "two.csv").write_text("bag,bag_label,corrected_label\nbag3,b,a\nbag10,c,b|c\n")
    train = ("train", folder / "bags.csv", *SHORT, "--labels", folder / "two.csv")
    (line,) = [line for line in majority(*train, "--out", folder / "two")[1].splitlines() if "two.csv" in line]
    assert line.startswith("2 labels")
    parts = parts_of(folder / "bags.csv")
    for part, name in {"train": "training", "val": "validation", "test": "test"}.items():
        assert f"{len({'bag3', 'bag10'} & {*getattr(parts, part).names})} of {name}" in line
    assert "two.csv" in (folder / "two" / "model-card.md").read_text()
    page = (folder / "two" / "report.html").read_text()
    assert "<dt>corrected labels</dt><dd>2, from two.csv</dd>" in page
    succeeds(*train, "--out", folder / "two-folds", "--folds", 3)
    (changed,) = {setting_of(result).changed for result in read_results(folder / "two-folds")}
    assert all(fact in changed for fact in ("two.csv", "2 bags"))


def test_bags_without_names_of_their_own_are_not_corrected(tmp_path):
    """Their number within each part would be taken, and bags of all parts changed."""
    (tmp_path / "labels.csv").write_text("bag,corrected_label\n3,a\n")
    options = OPTIONS | {"settings": {"training.epochs": 1}, "labels": str(tmp_path / "labels.csv")}
    instances, labels = [np.full((2, 3), bag, float) for bag in range(20)], ["a", "b"] * 10
    with pytest.raises(InputError, match=r"labels\.csv: .*no names"):
        package.train(package.Bags.from_lists(instances, labels), **options)
    twice = package.Bags.from_lists(instances, labels, names=[*range(10), *range(10)])
    with pytest.raises(InputError, match=r"labels\.csv: 2 bags have the name 3"):
        package.train(twice, **options)
    package.train(package.Bags.from_lists(instances, labels, names=[*range(20)]), **options)
