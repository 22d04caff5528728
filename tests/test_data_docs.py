"""The pages about your own data run as they are written."""

import re
import shlex
import sys
from pathlib import Path

import pandas as pd
import pytest

from majority.cli.app import main
from majority.recipes.label_preserving import known_sources

PAGES = Path(__file__).parents[1] / "docs/how-to"
BLOCK = re.compile(r'^```(\w+)(?: title="(\S+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def _in_a_new_folder(tmp_path, monkeypatch, short_heads, no_refit):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def run_page(name, monkeypatch, capsys):
    """Write the CSV blocks of a page, run its Python code and its commands, in order."""
    names = {}
    blocks = BLOCK.findall((PAGES / name).read_text())
    assert blocks
    for language, file, text in blocks:
        if language == "csv":
            Path(file).write_text(text)
        elif language == "python":
            exec(text, names)
        else:
            assert language == "sh"
            for line in text.splitlines():
                monkeypatch.setattr(sys, "argv", shlex.split(line))
                with pytest.raises(SystemExit) as stopped:
                    main()
                assert not stopped.value.code, (line, capsys.readouterr().err)


def test_the_page_about_tables(monkeypatch, capsys):
    run_page("tables.md", monkeypatch, capsys)
    rows = pd.read_csv("predictions.csv")
    assert rows.columns.tolist() == ["part", "bag", "instance", "class", "p(stroma)", "p(tumour)"]
    assert len(rows) == 10
    assert pd.read_parquet("by-bag.parquet")["bag"].tolist() == ["s1", "s2", "s3", "s4", "s5", "s6"]


def test_the_page_about_labels(monkeypatch, capsys):
    run_page("labels.md", monkeypatch, capsys)
    assert Path("ranked-run/report.html").exists()


def test_the_page_about_wrong_labels(monkeypatch, capsys):
    run_page("wrong-labels.md", monkeypatch, capsys)
    listed = pd.read_csv("review.csv")
    assert 15 <= len(listed) <= 40, "a fifth of 125 bags has a wrong label"
    assert (listed["n(suggested)"] > listed["n(label)"]).all()
    assert listed["corrected_label"].isna().all()
    assert len(pd.read_csv("review-instances.csv")) == 1_000


def test_the_page_about_known_classes(monkeypatch, capsys):
    run_page("known-classes.md", monkeypatch, capsys)
    assert Path("labelled-run/result.json").exists()


def test_the_page_about_images(monkeypatch, capsys):
    run_page("images.md", monkeypatch, capsys)
    assert Path("picture-run/report.html").exists()


def test_the_page_about_feature_files(monkeypatch, capsys):
    run_page("feature-files.md", monkeypatch, capsys)
    assert (pd.read_csv("slides.csv")["share"] > 0.5).all()
    assert Path("slide-folds/fold2/result.json").exists()


def test_the_table_of_augmentations_is_that_of_the_program():
    rows = re.findall(r"^\| (`[a-z].*?) \|(.*)\|$", (PAGES / "images.md").read_text(), re.MULTILINE)
    known = known_sources()
    written = {name: cells for names, cells in rows for name in re.findall(r"`(\w+)`", names) if name in known}
    assert {*known} - {*written} == {"organcmnist", "organsmnist"}, "and the other organ sets"
    for name, cells in written.items():
        allowed = [view in known[name] for view in ("flip", "rotate90", "colour", "grey")]
        assert [cell.strip() == "yes" for cell in cells.split("|")] == allowed, name
