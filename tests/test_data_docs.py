"""docs/data.md runs as it is written."""

import re
import shlex
import sys
from pathlib import Path

import pandas as pd
import pytest

from majority.cli import main
from majority.recipes.label_preserving import LABEL_PRESERVING

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_every_block_of_the_data_page(tmp_path, monkeypatch, capsys):
    names = {}
    for kind, name, text in BLOCK.findall((ROOT / "docs/data.md").read_text()):
        if kind == "csv":
            Path(name).write_text(text)
        elif kind == "python":
            exec(text, names)
        else:
            for line in text.splitlines():
                monkeypatch.setattr(sys, "argv", shlex.split(line))
                with pytest.raises(SystemExit) as stopped:
                    main()
                assert not stopped.value.code, (line, capsys.readouterr().err)
    rows = pd.read_csv("predictions.csv")
    assert rows.columns.tolist() == ["part", "bag", "instance", "class", "p(stroma)", "p(tumour)"]
    assert len(rows) == 10
    assert pd.read_parquet("by-bag.parquet")["bag"].tolist() == ["s1", "s2", "s3", "s4", "s5", "s6"]
    assert (pd.read_csv("slides.csv")["share"] > 0.5).all()
    assert Path("slide-folds/fold2/result.json").exists()


def test_the_table_of_what_may_be_done_to_images_is_the_programs():
    rows = re.findall(r"^\| (`[a-z].*?) \|(.*)\|$", (ROOT / "docs/data.md").read_text(), re.MULTILINE)
    said = {name: cells for names, cells in rows for name in re.findall(r"`(\w+)`", names) if name in LABEL_PRESERVING}
    assert {*LABEL_PRESERVING} - {*said} == {"organcmnist", "organsmnist"}, "and the like"
    for name, cells in said.items():
        allowed = [view in LABEL_PRESERVING[name] for view in ("flip", "rotate90", "colour", "grey")]
        assert [cell.strip() == "yes" for cell in cells.split("|")] == allowed, name
