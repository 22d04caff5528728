"""The report of a study as a user gets it: the command, its files, and the page in a real browser."""

import csv
import json
import re
from pathlib import Path

import pytest

from majority.run.study import figures as study_figures
from majority.run.study.page import write_study

FILES = ["report.html", "tables.md", "tables.csv", "tables.tex"]
METHODS = ("count", "soft-count", "log-mean", "vote", "naive", "supervised")


@pytest.fixture(scope="module")
def cells(cell):
    def make(sources=("cifar10", "/x/svhn28.npz"), folds=range(3), methods=METHODS):
        return [
            cell(method, accuracy, source=source, scenario=scenario, fold=fold, epochs=150, patience=100)
            for source in sources
            for scenario in ("small", "large")
            for number, method in enumerate(methods)
            for fold in folds
            for accuracy in [0.4 + 0.01 * number + 0.02 * fold * (number % 2)]
        ]

    return make


def write_cells(folder, results, name="results.jsonl"):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(json.dumps(result) + "\n" for result in results))
    return folder


@pytest.fixture(scope="module")
def study(tmp_path_factory, cells):
    """With an interval in one fold, and a fold that is missing."""
    results = cells()
    folder = write_cells(tmp_path_factory.mktemp("studies") / "my study", results)
    request = {"sources": ["cifar10", "/x/svhn28.npz"], "scenarios": ["small", "large"], "methods": list(METHODS)}
    request |= {"folds": [0, 1, 2, 3], "options": {"recipe": "paper", "epochs": 150}}
    missing = [f"{source}/small/vote/fold3" for source in ("cifar10", "svhn28")]
    record = {"study": request, "cells": [*(result["cell"] for result in results), *missing]}
    (folder / "study.json").write_text(json.dumps(record))
    write_study(folder)
    return folder


# ---------------------------------------------------------------------- the command and its files


def test_the_command_writes_four_files_and_names_them(succeeds, cells, tmp_path):
    folder = write_cells(tmp_path / "study", cells(), "mine.jsonl")
    write_cells(folder, cells(methods=["attention"]), "other.jsonl")
    out = succeeds("report", folder / "mine.jsonl")
    assert out.split("\n")[:-1] == [str(folder / name) for name in FILES]
    with (folder / "tables.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["figure"] == "instance_accuracy" and not row["reference"]]
    assert len(rows) == 2 * 2 * len(METHODS)
    (row,) = [r for r in rows if (r["source"], r["scenario"], r["method"]) == ("cifar10", "large", "soft-count")]
    assert (float(row["mean"]), float(row["sd"]), row["n"]) == (pytest.approx(0.43), pytest.approx(0.02), "3")
    assert "150 of 1,500 epochs, patience 100" in (folder / "tables.md").read_text()
    assert "attention" not in (folder / "tables.md").read_text()


@pytest.mark.parametrize("make", [lambda path: None, Path.mkdir, lambda path: write_cells(path, [])])
def test_nothing_to_report_is_one_message(majority, tmp_path, make):
    make(tmp_path / "study")
    code, out, error = majority("report", tmp_path / "study")
    assert (code, out) == (2, "")
    assert "holds no finished runs" in error
    assert error.count("\n") == 1


# ---------------------------------------------------------------------- the page


def test_missing_cells_are_counted_with_the_command_that_trains_them(majority, study):
    code, out, _ = majority("report", study)
    command = f"majority study cifar10 /x/svhn28.npz --methods {','.join(METHODS)} --scenarios small,large"
    assert code == 0
    assert "2 cells of this study missing" in out.splitlines()[0]
    assert command in out.splitlines()[0]
    page = (study / "report.html").read_text()
    assert "Missing: 2 cells of this study" in page
    assert command in page
    assert "<li>svhn28/small/vote/fold3</li>" in page


def test_a_reference_of_the_study_without_a_result_is_no_error(cells, tmp_path):
    """All its cells have failed: the others are reported."""
    folder = write_cells(tmp_path, cells(methods=["count", "naive"]))
    request = {"sources": ["cifar10"], "methods": ["count", "naive", "vote"], "reference": "vote"}
    (folder / "study.json").write_text(json.dumps({"study": request, "cells": ["cifar10/large/vote/fold0"]}))
    write_study(folder)
    assert "minus that of count" in (folder / "tables.md").read_text()


def test_without_instance_labels_bags_are_compared_and_nothing_is_empty(cell, tmp_path):
    results = [cell(method, source="bags", fold=fold) for method, fold in (("count", 0), ("vote", 0), ("vote", 1))]
    for result, right in zip(results, (0.6, 0.7, 0.9), strict=True):
        result["test"] = {"bag_accuracy": right, "intervals": {"bag_accuracy": [right - 0.1, right + 0.05]}}
    page = write_study(write_cells(tmp_path, results))[0].read_text()
    assert "<h2>Bag accuracy by method</h2>" in page
    assert "0.800 ± 0.141 (n=2)" in page
    assert "Instance accuracy" not in page
    assert "Consistency" not in page
    assert "<th>cost</th>" not in page
    assert not re.search(r"<tbody>\s*</tbody>", page)


def test_the_page_of_a_large_study_is_small_and_compares_each_result_with_its_recipe_once(cells, tmp_path, monkeypatch):
    compared = []
    setting_of = study_figures.setting_of
    monkeypatch.setattr(study_figures, "setting_of", lambda result: compared.append(result) or setting_of(result))
    results = cells(("cifar10", "svhn", "pathmnist"), range(5), (*METHODS, "attention", "additive", "output-mean"))
    page = write_study(write_cells(tmp_path, results))[0]
    assert len(compared) == len(results), "most of the work: the plan of the recipe is made for each result"
    assert page.stat().st_size < 3_000_000


# ---------------------------------------------------------------------- in a browser


def test_the_plot_comes_first(opened, study):
    page = opened(study / "report.html")
    assert page.title() == "my study · majority study"
    assert page.locator("#main figure").count() == 4, "two sources, two scenarios"
    plot = page.locator("#main .dots").first.inner_html()
    for words in ("naive", "all instance labels", "log-mean", "0.450 ± 0.020 (n=3)"):
        assert words in plot
    row = page.locator("#tables tbody tr").filter(has_text="log-mean").first
    assert row.locator("td").nth(1).inner_text() == "0.420 ± 0.000 (n=3)"


def test_hostile_names_are_escaped(opened, cell, tmp_path):
    write_cells(tmp_path, [cell(method, source="<script>alert(1)<&.npz") for method in ("count", "vote")])
    page = opened(write_study(tmp_path)[0])
    assert "<script>alert(1)<&" in page.locator("#study").inner_text()
