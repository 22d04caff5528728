"""Tables in results/ are those of the runs beside them: they are made again."""

import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
PAPER, DIGITS = "# The published protocol, as far as measured", "# Every method but additive-transmil on digits"


@pytest.mark.parametrize(
    ("folder", "runs", "title"), [("paper", "paper-*.jsonl", PAPER), ("digits", "results.jsonl", DIGITS)]
)
def test_a_studys_tables_are_those_of_its_runs(majority, tmp_path, folder, runs, title):
    for file in (RESULTS / folder).glob(runs):
        shutil.copy(file, tmp_path)
    assert majority("report", tmp_path)[0] == 0
    made = {file.name for file in tmp_path.glob("*tables.*")} | {"summary.csv"}
    there = {file.name for file in (RESULTS / folder).iterdir()}
    assert {"tables.md", "summary.csv"} <= made & there
    for name in made & there:
        first, rest = (tmp_path / name).read_text().split("\n", 1)
        if first.startswith("# "):  # a page's title is its folder's name
            first = title
        assert f"{first}\n{rest}" == (RESULTS / folder / name).read_text(), name


@pytest.mark.parametrize("folder", ["census", "census-unmixed"])
def test_the_tables_of_census_are_those_of_its_runs(monkeypatch, tmp_path, folder):
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    from census import write_tables

    shutil.copy(RESULTS / folder / "runs.jsonl", tmp_path)
    write_tables(tmp_path)
    made = {file.name for file in tmp_path.iterdir()}
    assert made == {file.name for file in (RESULTS / folder).iterdir()}
    for name in made:
        assert (tmp_path / name).read_text() == (RESULTS / folder / name).read_text(), name


def test_the_command_of_census_on_digits_finds_its_runs_done(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    from census import main

    shutil.copy(RESULTS / "census/runs.jsonl", tmp_path)
    words = ["digits", "--folds", "0-4", "--lines", "census", "--work", tmp_path / "work", "--out", tmp_path]
    monkeypatch.setattr(sys, "argv", ["census.py", *map(str, words)])
    main()
    assert (tmp_path / "runs.jsonl").read_text() == (RESULTS / "census/runs.jsonl").read_text()


def test_no_file_names_a_machines_own_place():
    places = [f"/{name}/" for name in ("tmp", "home", "work", "root", "Users")]
    for file in RESULTS.rglob("*.*"):
        assert not any(place in file.read_text() for place in places), file
