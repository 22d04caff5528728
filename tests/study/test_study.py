"""A study: every cell once, one table, the same after an interruption."""

import csv
import json
import sys

import pytest

from majority.cli import main
from majority.experiments import Experiment
from majority.study import aggregate, as_csv, as_markdown
from majority.study.tables import shown

COMMAND = ["study", "digits", "--methods", "log-mean,naive", "--scenarios", "large,various", "--folds", "0-1"]
COMMAND += ["--bags", "20", "--bag-size", "8", "--epochs", "2", "--device", "cpu"]


def study(monkeypatch, out):
    monkeypatch.setattr(sys, "argv", ["majority", *COMMAND, "--out", str(out)])
    with pytest.raises(SystemExit) as exit_:
        main()
    return exit_.value.code or 0


def test_a_study_runs_every_cell_and_tells_mean_and_deviation(monkeypatch, tmp_path, capsys):
    assert study(monkeypatch, tmp_path) == 0
    results = sorted(tmp_path.rglob("result.json"))
    assert len(results) == 2 * 2 * 2
    rows = list(csv.DictReader((tmp_path / "table.csv").open()))
    assert [(row["scenario"], row["method"], row["n"]) for row in rows] == [
        ("large", "log-mean", "2"), ("large", "naive", "2"), ("various", "log-mean", "2"), ("various", "naive", "2"),
    ]  # fmt: skip
    cells = [json.loads((tmp_path / "digits/large/naive" / f"fold{f}" / "result.json").read_text()) for f in (0, 1)]
    a, b = (cell["test"]["instance_accuracy"] for cell in cells)
    assert float(rows[1]["instance_accuracy"]) == pytest.approx((a + b) / 2)
    assert float(rows[1]["instance_accuracy_sd"]) == pytest.approx(abs(a - b) / 2**0.5)
    assert f"{(a + b) / 2:.3f} ± " in capsys.readouterr().out
    assert (tmp_path / "table.md").read_text().count("\n") == 2 + 4


def test_an_interrupted_study_goes_on_where_it_was(monkeypatch, tmp_path):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    study(monkeypatch, whole)
    real, runs = Experiment.run, []

    def stops(self, folder, *arguments):
        if len(runs) == 3:
            raise KeyboardInterrupt
        runs.append(folder)
        return real(self, folder, *arguments)

    monkeypatch.setattr(Experiment, "run", stops)
    assert study(monkeypatch, stopped) == 130
    monkeypatch.setattr(Experiment, "run", real)
    stamps = {folder: (folder / "best.safetensors").stat().st_mtime_ns for folder in runs}
    assert study(monkeypatch, stopped) == 0
    assert all((folder / "best.safetensors").stat().st_mtime_ns == stamp for folder, stamp in stamps.items())
    tables = [list(csv.DictReader((folder / "table.csv").open())) for folder in (whole, stopped)]
    for row in (*tables[0], *tables[1]):
        row.pop("seconds")
    assert tables[0] == tables[1]


def test_methods_share_their_bags(monkeypatch, tmp_path):
    study(monkeypatch, tmp_path)
    prints = {
        method: json.loads((tmp_path / f"digits/large/{method}/fold0/config.json").read_text())["data"]["fingerprint"]
        for method in ("log-mean", "naive")
    }
    assert prints["log-mean"] == prints["naive"]


def test_a_figure_that_is_not_defined_is_left_out():
    def result(fold, rate):
        figures = {"instance_accuracy": 0.5, "bag_accuracy": 0.0, "consistency_rate": rate, "overestimation": 1.0}
        names = {"source": "s", "scenario": "small", "method": "count", "recipe": "quick", "fold": fold, "seconds": 1.0}
        return {"test": figures, **names}

    (row,) = aggregate([result(0, None), result(1, 0.8)])
    assert (row["n"], row["consistency_rate"], row["consistency_rate_sd"]) == (2, 0.8, None)
    (empty,) = aggregate([result(0, None)])
    assert shown(empty, "consistency_rate") == "-"
    assert shown(empty, "overestimation") == "+1.0"
    assert "| - |" in as_markdown([empty])
    assert as_csv([empty]).splitlines()[0].startswith("source,scenario,method,recipe,n,instance_accuracy")
