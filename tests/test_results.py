"""What lies in results/ is what the committed runs give: tables that were made from them are made again."""

import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"


@pytest.mark.parametrize(("folder", "runs"), [("paper", "paper-*.jsonl"), ("digits", "results.jsonl")])
def test_a_studys_tables_are_those_of_its_runs(majority, tmp_path, folder, runs):
    for file in (RESULTS / folder).glob(runs):
        shutil.copy(file, tmp_path)
    assert majority("report", tmp_path)[0] == 0
    without_title = lambda file: file.read_text().partition("\n")[2]
    assert without_title(tmp_path / "tables.md") == without_title(RESULTS / folder / "tables.md")
    assert (tmp_path / "summary.csv").read_text() == (RESULTS / folder / "summary.csv").read_text()


def test_the_tables_of_census_are_those_of_its_runs(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    from census import write_tables

    shutil.copy(RESULTS / "census/runs.jsonl", tmp_path)
    write_tables(tmp_path)
    made = {file.name for file in tmp_path.iterdir()}
    assert made == {file.name for file in (RESULTS / "census").iterdir()}
    for name in made:
        assert (tmp_path / name).read_text() == (RESULTS / "census" / name).read_text(), name


def test_no_file_names_a_machines_own_place():
    for file in RESULTS.rglob("*.json*"):
        assert not any(place in file.read_text() for place in ('"/tmp', '"/home', '"/work', '"/root', "/Users/")), file
