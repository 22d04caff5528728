"""Tables and plots in results/ are those of the raw files beside them."""

import shutil
import sys

import numpy as np
import pytest
from raw_results import (
    DOCS,
    RESULTS,
    ROOT,
)

from majority.data import scenarios
from majority.run.study import difficulty
from majority.run.study.results import read_results

PAPER, DIGITS = "# The published protocol, as far as measured", "# Every method but additive-transmil on digits"


@pytest.mark.parametrize(
    ("folder", "runs", "title"), [("paper", "paper-*.jsonl", PAPER), ("digits", "results.jsonl", DIGITS)]
)
def test_the_tables_of_a_study_are_those_of_its_runs(majority, tmp_path, folder, runs, title):
    for file in (RESULTS / folder).glob(runs):
        shutil.copy(file, tmp_path)
    assert majority("report", tmp_path)[0] == 0
    written = {file.name for file in tmp_path.glob("*tables.*")} | {"summary.csv"}
    committed = {file.name for file in (RESULTS / folder).iterdir()}
    assert {"tables.md", "summary.csv"} <= written & committed
    for name in written & committed:
        first, rest = (tmp_path / name).read_text().split("\n", 1)
        if first.startswith("# "):  # the title of a page is the name of its folder
            first = title
        assert f"{first}\n{rest}" == (RESULTS / folder / name).read_text(), name


@pytest.mark.parametrize("folder", ["census", "census-unmixed"])
def test_the_tables_of_census_are_those_of_its_runs(monkeypatch, tmp_path, folder):
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    from census_tables import write_tables

    shutil.copy(RESULTS / folder / "runs.jsonl", tmp_path)
    write_tables(tmp_path)
    written = {file.name for file in tmp_path.iterdir()}
    assert written == {file.name for file in (RESULTS / folder).iterdir()} - {
        "ablation.jsonl",
        "student-trials.jsonl",
        "validation-instances.jsonl",
        "views.jsonl",
        "unknown.jsonl",
        "unknown.csv",
    }
    for name in written:
        assert (tmp_path / name).read_text() == (RESULTS / folder / name).read_text(), name


def test_the_command_of_census_on_digits_finds_its_runs_finished(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    from census import main

    shutil.copy(RESULTS / "census/runs.jsonl", tmp_path)
    words = ["digits", "--folds", "0,4", "--lines", "census", "--work", tmp_path / "work", "--out", tmp_path]
    monkeypatch.setattr(sys, "argv", ["census.py", *map(str, words)])
    main()
    assert (tmp_path / "runs.jsonl").read_text() == (RESULTS / "census/runs.jsonl").read_text()


def first_instances(class_counts, pools, *more):
    """Which instances of a class are in a bag changes no figure of the bags, and to draw them takes seconds."""
    return np.array([np.concatenate([p[:n] for p, n in zip(pools, counts, strict=True)]) for counts in class_counts])


def test_the_table_and_plots_of_what_makes_bags_hard_are_those_of_its_runs(monkeypatch, request, tmp_path):
    request.addfinalizer(difficulty._bag_statistics.cache_clear)
    monkeypatch.setattr(scenarios, "_draw_instances", first_instances)
    difficulty._bag_statistics.cache_clear()
    difficulty.write(read_results(RESULTS / "difficulty/results.jsonl"), tmp_path)
    assert (tmp_path / "difficulty.csv").read_text() == (RESULTS / "difficulty/difficulty.csv").read_text()
    plots = {path.name for path in tmp_path.glob("*.svg")}
    assert plots == {path.name for path in (DOCS / "figures").glob("difficulty-*.svg")}
    for name in plots:
        assert (tmp_path / name).read_text() == (DOCS / "figures" / name).read_text(), name


def test_no_file_names_a_folder_of_a_machine():
    folders = [f"/{name}/" for name in ("tmp", "home", "work", "root", "Users")]
    for file in RESULTS.rglob("*.*"):
        assert not any(folder in file.read_text() for folder in folders), file
