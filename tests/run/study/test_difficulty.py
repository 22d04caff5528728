"""What makes learning hard: one variable at a time, its bags, tables and plots from results."""

import csv
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from majority import io as sources
from majority.errors import InputError
from majority.io import Parts
from majority.run.config import RunConfig
from majority.run.data import make_parts
from majority.run.study import difficulty
from majority.run.study.difficulty import AXES, BASE, FOLDS, METHODS

SVG = "{http://www.w3.org/2000/svg}"


def result(point: dict, method: str, fold: int, accuracy: float, f1: float = 0.5) -> dict:
    figures = {"instance_accuracy": accuracy, "macro_f1": f1}
    return {
        "source": "digits",
        "method": method,
        "fold": fold,
        "data": RunConfig.from_options("digits", fold=fold, **point).facts_of_bags(),
        "test": figures,
    }


def synthetic() -> list[dict]:
    """The two smallest values of every axis: 0.70 and 0.72 for count, 0.1 more for each later method."""
    points = {str(point): point for axis in AXES.values() for point in axis.points()[:2]}
    results = [
        result(point, method, fold, 0.7 + 0.1 * number + 0.02 * fold)
        for point in points.values()
        for number, method in enumerate(METHODS)
        for fold in (0, 1)
    ]
    return [*results, *(result(BASE, difficulty.CEILING, fold, 0.95) for fold in (0, 1))]


@pytest.mark.parametrize("name", AXES)
def test_an_axis_changes_only_its_variable(name):
    axis = AXES[name]
    points = axis.points()
    assert [point[axis.variable] for point in points] == list(axis.values)
    for point in points:
        others = {name: value for name, value in point.items() if name not in {axis.variable, *axis.fixed}}
        assert others.items() <= BASE.items()
        assert axis.fixed.items() <= point.items()
        assert point.keys() == BASE.keys()


def test_a_shared_point_is_run_once_and_every_cell_sees_as_many_bags():
    planned = list(difficulty.cells("digits", Path("out")))
    assert len({folder for folder, _ in planned}) == len(planned)
    asked = [cell.config.model_dump_json() for _, cell in planned]
    assert len(set(asked)) == len(asked)
    points = {str(point) for axis in AXES.values() for point in axis.points()}
    assert len(planned) == len(FOLDS) * (len(METHODS) * len(points) + 1)
    for _, cell in planned:
        assert cell.config.settings["training.epochs"] * cell.config.bags.bags == difficulty.BAGS_SEEN


def test_an_axis_has_the_values_of_its_reference():
    for axis in AXES.values():
        if axis.reference:
            reference = AXES[axis.reference]
            assert (axis.variable, axis.values) == (reference.variable, reference.values)


def parts_at(point: dict, source) -> Parts:
    return make_parts(RunConfig.from_options("digits", **point), source)


def parts_of(name: str) -> list:
    digits = sources.load("digits")
    return [parts_at(point | {"bags": 400}, digits) for point in AXES[name].points()]


def test_the_bags_have_the_classes_that_were_asked_for():
    for asked, parts in zip(AXES["classes"].values, parts_of("classes"), strict=True):
        for part in parts:
            assert part.classes == tuple("0123456789"[:asked])
            assert set(part.instance_labels) == set(part.labels) == set(range(asked))


def test_the_first_class_wins_as_many_times_as_asked():
    digits = sources.load("digits")
    for asked in AXES["winners"].values:
        labels = parts_at(BASE | {"winner_ratio": asked, "bags": 1000, "bag_size": 8}, digits).train.labels
        wins = np.bincount(labels, minlength=10)
        expected = asked ** -np.linspace(0, 1, 10)
        expected *= 1000 / expected.sum()
        assert (abs(wins - expected) < 5 * np.sqrt(expected)).all()


def test_the_lead_of_the_majority_grows_along_its_axis():
    leads = [difficulty._bag_statistics("digits", 0, **point)["margin"] for point in AXES["majority"].points()]
    assert all(low < high for low, high in pairwise(leads))


def test_only_the_axis_of_ties_has_tied_bags():
    for name in ("bag-size", "ties"):
        rates = [parts.train.tie_rate() for parts in parts_of(name)]
        assert all(rates) if name == "ties" else not any(rates)


def test_rows_of_results():
    table = difficulty.make_rows(synthetic())
    row = next(row for row in table if (row["axis"], row["value"], row["method"]) == ("bags", 50, "log-mean"))
    assert row["n"] == 2
    assert row["instance_accuracy"] == pytest.approx(0.81)
    assert row["instance_accuracy_sd"] == pytest.approx(0.02 / 2**0.5)
    assert row["majority"] == pytest.approx(0.3, abs=0.02)
    assert row["tie_rate"] == 0
    ceilings = {(row["axis"], row["value"]) for row in table if row["method"] == difficulty.CEILING}
    assert ceilings == {("bags", 200), ("bag-size", 32), ("winners", 1)}
    tied = [row for row in table if row["axis"] == "ties"]
    assert {row["value"] for row in tied} == {8, 16}
    assert all(row["tie_rate"] > 0.05 for row in tied)


def test_tables_and_plots_are_written(tmp_path):
    difficulty.write(synthetic(), tmp_path)
    written = list(csv.DictReader((tmp_path / "difficulty.csv").open()))
    assert {row["axis"] for row in written} == set(AXES)
    page = (tmp_path / "difficulty.md").read_text()
    assert "| 8 | 0.710 ± 0.014 | 0.810 ± 0.014 | 0.910 ± 0.014 | 2 |" in page
    for name, axis in AXES.items():
        assert f"difficulty-{name}.svg" in page
        drawn = ElementTree.parse(tmp_path / f"difficulty-{name}.svg").getroot()
        texts = [text.text for text in drawn.iter(f"{SVG}text")]
        assert {*METHODS, axis.label, *(str(value).replace(",", "–") for value in axis.values)} <= set(texts)
        means = [row for row in written if row["axis"] == name and row["method"] in METHODS]
        assert len(list(drawn.iter(f"{SVG}circle"))) == len(means)
        dashed = [line for line in drawn.iter(f"{SVG}polyline") if line.get("stroke-dasharray") != "none"]
        assert len(dashed) == (len(METHODS) if axis.reference else 0)


@pytest.mark.usefixtures("one_process")
def test_two_cells_for_real(tmp_path, monkeypatch):
    monkeypatch.setattr(difficulty, "AXES", {"bags": difficulty.Axis("bags", (20,), "training bags")})
    monkeypatch.setattr(difficulty, "BASE", BASE | {"bags": 20, "bag_size": 8})
    monkeypatch.setattr(difficulty, "BAGS_SEEN", 40)
    for _ in range(2):  # the second time everything is finished
        done = difficulty.run("digits", tmp_path, "cpu", jobs=1, methods=("log-mean",), folds=(0,))
        assert [cell.result["epochs"] for cell in done] == [2, 2]
    names = {path.name for path in tmp_path.iterdir()}
    tables = {"results.jsonl", "table.md", "table.csv", "difficulty.csv", "difficulty.md"}
    assert names == {"base", *tables, "difficulty-bags.svg"}


def test_a_set_with_too_few_classes_is_refused_at_once(tmp_path):
    file = tmp_path / "few.npz"
    images, labels = np.zeros((200, 8, 8), np.uint8), np.arange(200)[:, None] % 3
    np.savez(file, **{f"{part}_images": images for part in ("train", "val", "test")},
             **{f"{part}_labels": labels for part in ("train", "val", "test")})  # fmt: skip
    with pytest.raises(InputError, match="10 of the 3 classes of few: give 2 to 3"):
        difficulty.run(str(file), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_command_takes_the_preset(majority, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(difficulty, "run", lambda *given: asked.append((*given[:4], *given[5:7])) or [])
    words = ("study", "digits", "--preset", "difficulty", "--jobs", "1", "--out", tmp_path)
    assert majority(*words)[0] == 0
    assert majority(*words, "--methods", "vote,soft-count", "--folds", "4")[0] == 0
    common = ("digits", tmp_path, "auto", 1)
    assert asked == [(*common, METHODS, FOLDS), (*common, ("vote", "soft-count"), (4,))]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--preset", "easy"], "preset is 'easy': give difficulty"),
        (["--preset", "difficulty", "--epochs", "1"], "sets epochs itself"),
        (["--preset", "difficulty", "--compile"], "sets compile itself"),
        (["--preset", "difficulty", "--set", "a=1"], "sets settings itself"),
        (["cifar10", "--preset", "difficulty"], "one source: give digits"),
    ],
)
def test_a_preset_takes_no_other_options(majority, tmp_path, words, message):
    code, _, error = majority("study", "digits", *words, "--out", tmp_path / "study")
    assert code == 2
    assert message in error
    assert not (tmp_path / "study").exists()
