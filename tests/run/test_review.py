"""`majority review`, corrected labels, and benchmark bags with wrong labels."""

import csv
import io
import json
from contextlib import redirect_stderr, redirect_stdout
from types import SimpleNamespace

import numpy as np
import pytest

import majority
from majority import load_source
from majority.cli.app import main
from majority.errors import InputError
from majority.log import no_log
from majority.run.config import RunConfig
from majority.run.data import read_data, with_corrections
from majority.run.study.results import read_results, setting_of

QUICK = ["--recipe", "quick", "--method", "log-mean", "--epochs", "20", "--device", "cpu", "--set", "assumed_wrong=0"]
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


def command(*words):
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed), redirect_stderr(printed):
        patch.setattr("sys.argv", ["majority", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
    return SimpleNamespace(exit_code=ended.value.code, output=printed.getvalue())


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def parts_of(source, log=no_log, **options):
    return read_data(with_corrections(RunConfig.from_options(str(source), **options)), log=log).parts


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("review")
    write_table(place / "bags.csv")
    assert command("train", place / "bags.csv", *QUICK, "--out", place / "run").exit_code == 0
    assert command("review", place / "run", "--out", place / "review.csv", "--device", "cpu").exit_code == 0
    return place


def test_the_bags_with_wrong_labels_are_listed_first(folder):
    rows = read(folder / "review.csv")
    assert {row["bag"] for row in rows[:3]} == set(WRONG)
    assert all(row["suggested_label"] == "abc"[int(row["bag"][3:]) % 3] for row in rows[:3])
    certainty = [float(row["p(wrong)"]) for row in rows]
    assert certainty == sorted(certainty, reverse=True)
    assert all(row["corrected_label"] == "" for row in rows)
    instances = read(folder / "review-instances.csv")
    lowest = [float(row["probability"]) for row in instances]
    assert lowest == sorted(lowest)
    assert len(instances) == 48 * 12


def test_the_page_of_these_bags_shows_them(folder):
    assert command("report", folder / "run", folder / "bags.csv", "--device", "cpu").exit_code == 0
    page = (folder / "run" / "report-bags.html").read_text()
    assert 'id="suspicious"' in page
    assert all(f"<b>bag {name}</b>" in page.split('id="suspicious"')[1] for name in WRONG)


@pytest.mark.parametrize("column", [None, "label", "bag_label"])
def test_bags_without_labels_are_refused_with_the_cure_of_this_command(folder, tmp_path, column):
    with (folder / "bags.csv").open(newline="") as file:
        table = [{name: cell for name, cell in row.items() if name != "bag_label"} for row in csv.DictReader(file)]
    content = {"label": "a", "bag_label": ""}  # the class of each instance is no label of a bag
    rows = [row | ({column: content[column]} if column else {}) for row in table]
    with (tmp_path / "new.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    words = "review", folder / "run", tmp_path / "new.csv", "--out", tmp_path / "r.csv", "--device", "cpu"
    error = command(*words).output
    facts = ["a review ", "label of each bag"] if column == "bag_label" else ["no column bag_label", "--label-column"]
    assert all(fact in error for fact in ["new.csv", *facts])
    assert not any(f"majority {other}" in error for other in ("evaluate", "predict", "report", "check"))
    assert not (tmp_path / "r.csv").exists()


def test_each_bag_of_a_cross_validation_is_judged_by_the_fold_that_tests_it(folder):
    out = folder / "folds"
    assert command("train", folder / "bags.csv", *QUICK, "--folds", 3, "--out", out).exit_code == 0
    assert command("review", out, "--out", folder / "by-fold.csv", "--device", "cpu").exit_code == 0
    rows = read(folder / "by-fold.csv")
    assert {*WRONG} <= {row["bag"] for row in rows}
    for row in rows:
        fold = int(row["part"].removeprefix("fold"))
        assert row["bag"] in parts_of(folder / "bags.csv", folds=3, fold=fold).test.names


def test_corrected_labels_go_back_into_training(folder):
    rows = read(folder / "review.csv")
    for row in rows:
        row["corrected_label"] = row["suggested_label"] if row["bag"] in WRONG else ""
    with (folder / "corrected.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    train = ("train", folder / "bags.csv", *QUICK, "--labels", folder / "corrected.csv", "--out", folder / "again")
    assert command(*train).exit_code == 0
    (folder / "corrected.csv").rename(folder / "moved.csv")  # the run knows the corrections
    assert command("review", folder / "again", "--out", folder / "second.csv", "--device", "cpu").exit_code == 0
    assert not {*WRONG} & {row["bag"] for row in read(folder / "second.csv")}
    (folder / "moved.csv").rename(folder / "corrected.csv")
    before, after = (parts_of(folder / "bags.csv", labels=labels) for labels in (None, str(folder / "corrected.csv")))
    for part in ("train", "val", "test"):  # every bag stays in its part
        one, other = getattr(before, part), getattr(after, part)
        assert one.names.tolist() == other.names.tolist()
        changed = {one.names[bag] for bag in np.flatnonzero(one.labels != other.labels)}
        assert changed == {*WRONG} & {*one.names.tolist()}


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("bag,corrected_label\nbag3,a\nnowhere,b\n", ["row 3", "nowhere"]),
        ("bag,corrected_label\nbag4,\nbag3,oak\n", ["row 3", "oak", "bag3", "a, b, c"]),
        ("bag,corrected_label\nbag3,A\n", ["row 2", "bag3", "did you mean a?"]),
        ("bag,corrected_label\nbag3,a|a\n", ["row 2", "bag3", "a|a", "twice"]),
        ("bag,bag_label\nbag3,a\n", ["corrected_label"]),
        ("bag,corrected_label\nbag3,\n", ["corrects nothing"]),
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


def test_corrected_labels_are_read_once_before_training(folder, tmp_path):
    (tmp_path / "review.csv").write_text("bag,corrected_label\nbag3,a\n")

    class Remove(majority.Callback):
        def on_fit_start(self, *_):
            (tmp_path / "review.csv").unlink()

    options = {"method": "log-mean", "recipe": "quick", "settings": {"training.epochs": 1}, "device": "cpu"}
    labels = str(tmp_path / "review.csv")
    run = majority.train(folder / "bags.csv", labels=labels, callbacks=[Remove()], out=tmp_path / "run", **options)
    assert json.loads((run.folder / "config.json").read_text())["run"]["bags"]["corrections"] == {"bag3": "a"}


SHORT = ["--recipe", "quick", "--method", "log-mean", "--epochs", "1", "--device", "cpu"]


@pytest.fixture(scope="module")
def corrected(folder):
    (folder / "two.csv").write_text("bag,bag_label,corrected_label\nbag3,b,a\nbag10,c,b|c\n")
    train = ("train", folder / "bags.csv", *SHORT, "--labels", folder / "two.csv")
    return command(*train, "--out", folder / "two"), command(*train, "--out", folder / "two-folds", "--folds", 3)


def test_a_run_reports_how_many_labels_were_corrected_in_which_parts(folder, corrected):
    (line,) = [line for line in corrected[0].output.splitlines() if "two.csv" in line]
    assert "warning" not in line
    parts = parts_of(folder / "bags.csv")
    for part, name in {"train": "training", "val": "validation", "test": "test"}.items():
        names = getattr(parts, part).names.tolist()
        assert f"{len({'bag3', 'bag10'} & {*names})} of {name}" in line
    assert line.startswith("2 labels")


def test_pages_and_tables_show_the_number_of_corrections_and_their_file(folder, corrected):
    (line,) = [line for line in (folder / "two" / "model-card.md").read_text().splitlines() if "two.csv" in line]
    assert "2" in line
    page = (folder / "two" / "report.html").read_text()
    assert "<dt>corrected labels</dt><dd>2, from two.csv</dd>" in page
    assert "<dt>run.corrections</dt><dd>2</dd>" in page
    assert "run.corrections." not in page
    assert corrected[1].exit_code == 0
    changed = {setting_of(result).changed for result in read_results(folder / "two-folds")}
    assert len(changed) == 1
    assert all(fact in min(changed) for fact in ("two.csv", "2 bags"))
    assert "bag10" not in min(changed) + corrected[1].output


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("bag3,b,a\nbag4,a,c\nbag5,b,a\n", ["2 bags", "row 3", "bag4"]),  # bag4 has label b, bag5 label c
        ("bag3,b,a\nbag4,a,b\n", []),  # the correction is in the table already
        ("bag3,,a\n", []),
    ],
)
def test_a_label_that_is_not_the_reviewed_one_is_reported(folder, tmp_path, text, facts):
    (tmp_path / "labels.csv").write_text("bag,bag_label,corrected_label\n" + text)
    lines = []
    parts_of(folder / "bags.csv", lines.append, labels=str(tmp_path / "labels.csv"))
    warnings = [line for line in lines if line.startswith("warning")]
    assert len(warnings) == bool(facts)
    assert all(fact in warnings[0] for fact in facts)


def test_bags_without_names_of_their_own_are_not_corrected(tmp_path):
    """Their number within each part would be taken, and bags of all parts changed."""
    file = tmp_path / "labels.csv"
    file.write_text("bag,corrected_label\n3,a\n")
    instances = [np.full((2, 3), bag, float) for bag in range(20)]
    labels, options = (
        ["a", "b"] * 10,
        {"recipe": "quick", "settings": {"training.epochs": 1}, "labels": str(file), "device": "cpu"},
    )
    with pytest.raises(InputError, match=r"labels\.csv: .*no names"):
        majority.train(majority.Bags.from_lists(instances, labels), **options)
    twice = majority.Bags.from_lists(instances, labels, names=[*range(10), *range(10)])
    with pytest.raises(InputError, match=r"labels\.csv, row 2: 2 bags have the name 3"):
        majority.train(twice, **options)
    majority.train(majority.Bags.from_lists(instances, labels, names=[*range(20)]), **options)
