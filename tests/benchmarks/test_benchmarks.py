"""The code of the benchmarks runs: small, on any machine. The measured values are not tested here."""

import json
import runpy
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def run(helpers, monkeypatch, capsys):
    """`python benchmarks/NAME ...` without a new process; what it prints."""

    def run(name, *words):
        monkeypatch.setattr(sys, "argv", [name, *map(str, words)])
        runpy.run_path(str(BENCHMARKS / name), run_name="__main__")
        return capsys.readouterr().out

    return run


def lines_of(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.parametrize("name", sorted({path.name for path in BENCHMARKS.glob("*.py")} - {"helpers.py"}))
def test_every_benchmark_says_how_it_is_used(run, name):
    with pytest.raises(SystemExit) as ended:
        run(name, "--help")
    assert ended.value.code == 0


def test_speed_runs_small(run, tmp_path):
    out = tmp_path / "speed.json"
    run("speed.py", "--tiny", "--out", out, "--commit", "abc")
    result = json.loads(out.read_text())
    assert set(result["epoch_seconds"]) == {"published", "eager", "shipped", "floor"}
    assert all(seconds > 0 for seconds in result["epoch_seconds"].values())
    assert result["commit"] == "abc"
    assert all(rates["stream"] > 0 and rates["forward"] > 0 for rates in result["prediction"].values())


def test_startup_runs_small(run, tmp_path):
    out = tmp_path / "startup.json"
    run("startup.py", "--tiny", "--out", out)
    result = json.loads(out.read_text())
    assert result["cpu_seconds"]["after"]["list"]["median"] > 0


def test_a_process_is_measured_with_its_children(helpers):
    busy = "import subprocess, sys, time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    measured = helpers.run_measured([sys.executable, "-c", busy])
    assert 0.3 <= measured["cpu"] < 5
    assert measured["peak_mb"] > 1
    with pytest.raises(SystemExit, match="ended with 3"):
        helpers.run_measured([sys.executable, "-c", "raise SystemExit(3)"])


@pytest.mark.usefixtures("one_process")
def test_the_default_is_measured_beside_other_rows_and_continues(run, tmp_path):
    out = tmp_path / "runs.jsonl"
    words = ["digits", "--folds", "0", "--scenarios", "large", "--tiny", "--device", "cpu", "--jobs", "1"]
    words += ["--work", tmp_path / "work", "--out", out, "--commit", "abc"]
    run("default.py", *words, "--rows", "supervised")
    first = out.read_text()
    run("default.py", *words, "--rows", "supervised,default")
    assert out.read_text().startswith(first), "a training that has a line is not run again"
    lines = lines_of(out)
    assert [(line["row"], line["commit"]) for line in lines] == [("supervised", "abc"), ("default", "abc")]
    (row,) = (tmp_path / "table.md").read_text().splitlines()[2:]
    assert f"{lines[1]['instance_accuracy']:.3f}" in row


def test_no_raw_file_names_a_folder_of_a_machine():
    folders = [f"/{name}/" for name in ("tmp", "home", "work", "root", "Users")]
    for file in (BENCHMARKS.parent / "results").rglob("*.*"):
        assert not any(folder in file.read_text() for folder in folders), file
