"""The table about audits is that of its raw file."""

import runpy
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parents[2]


def test_the_table_is_that_of_the_raw_file():
    table_of = runpy.run_path(str(ROOT / "benchmarks/audit.py"))["table_of"]
    table = table_of(pd.read_csv(ROOT / "results/audit/cells.csv"))
    assert table == (ROOT / "results/audit/table.md").read_text()
