"""The pages about your own data run as they are written."""

import re
import runpy
import shlex
import sys
from pathlib import Path

import pandas as pd
import pytest

from majority import LabelledSet
from majority.cli.app import main
from majority.io.benchmarks.catalogue import known_sources

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs/how-to"
TABLES = ["python", "examples/digit_tables.py", "tables"]
BLOCK = re.compile(r'^```(\w+)(?: title="(\S+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def _in_a_new_folder(tmp_path, monkeypatch, no_refit):
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
        elif language == "sh":
            for line in text.splitlines():
                run_command(shlex.split(line), monkeypatch, capsys)
        else:
            assert language == "console"  # see `test_each_kind_of_label_is_shown_on_digits`


def run_command(words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as stopped:
        main()
    assert not stopped.value.code, (words, capsys.readouterr().err)


def test_the_page_about_tables(monkeypatch, capsys):
    run_page("tables.md", monkeypatch, capsys)
    rows = pd.read_csv("predictions.csv")
    assert rows.columns.tolist() == ["part", "bag", "instance", "class", "p(stroma)", "p(tumour)"]
    assert len(rows) == 10
    assert pd.read_parquet("by-bag.parquet")["bag"].tolist() == ["s1", "s2", "s3", "s4", "s5", "s6"]


def test_the_page_about_labels(monkeypatch, capsys):
    run_page("labels.md", monkeypatch, capsys)
    assert Path("ranked-run/report.html").exists()


@pytest.mark.parametrize("name", ["weights", "few-instance-labels"])
def test_the_pages_about_weights_and_instance_labels(name, monkeypatch, capsys):
    run_page(f"{name}.md", monkeypatch, capsys)


@pytest.fixture(scope="module")
def digit_tables(tmp_path_factory):
    """The tables that the pages write, with smaller bags."""
    folder, make_parts = tmp_path_factory.mktemp("digits") / "tables", LabelledSet.make_parts
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LabelledSet, "make_parts", lambda self, **given: make_parts(self, bag_size=16, **given))
        patch.setattr(sys, "argv", [*TABLES[1:-1], str(folder)])
        runpy.run_path(str(ROOT / TABLES[1]), run_name="__main__")
    return folder


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("unlabelled-bags", "100 bags without a label"),
        ("doubtful-labels", "with one of several labels"),
        ("runner-up", "300 bags with a runner-up"),
        ("weights", "largest sum of weights"),
        ("few-instance-labels", "known for 850 of 4,800 instances"),
    ],
)
def test_each_kind_of_label_is_shown_on_digits(name, shown, digit_tables, monkeypatch, capsys):
    """With smaller bags and short trainings."""
    Path("tables").symlink_to(digit_tables)
    blocks = re.findall(r"```console\n(.*?)```", (PAGES / f"{name}.md").read_text(), re.DOTALL)
    script, check, *others = (shlex.split(line.removeprefix("$ ")) for line in "".join(blocks).splitlines())
    assert script == TABLES
    run_command(check, monkeypatch, capsys)
    assert shown in " ".join("".join(capsys.readouterr()).replace("│", " ").split())
    for words in others:
        short = ["--recipe", "quick", "--epochs", "1"] if words[1] == "train" else []
        run_command([*words, *short], monkeypatch, capsys)
    assert Path("with/result.json").exists()
    assert Path("without/result.json").exists()
    if name == "weights":
        assert {"weight(0)", "n(0)"} <= {*pd.read_csv("by-bag.csv")}


def test_the_page_about_wrong_labels(monkeypatch, capsys):
    run_page("wrong-labels.md", monkeypatch, capsys)
    listed = pd.read_csv("review.csv")
    assert 15 <= len(listed) <= 40, "a fifth of 125 bags has a wrong label"
    assert (listed["n(suggested)"] > listed["n(label)"]).all()
    assert listed["corrected_label"].isna().all()
    assert len(pd.read_csv("review-instances.csv")) == 1_000


def test_the_page_about_audits(monkeypatch, capsys):
    run_page("audit.md", monkeypatch, capsys)
    assert Path("digits-audit/label.html").exists()


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
