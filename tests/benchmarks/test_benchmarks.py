"""The benchmarks' code runs: small, on any machine. What they measure is not judged here."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_speed_runs_small(tmp_path):
    out = tmp_path / "speed.json"
    command = [sys.executable, ROOT / "benchmarks/speed.py", "--tiny", "--out", out, "--commit", "abc"]
    subprocess.run(command, check=True, capture_output=True)
    result = json.loads(out.read_text())
    assert set(result["epoch_seconds"]) == {"published", "eager", "shipped", "floor"}
    assert all(seconds > 0 for seconds in result["epoch_seconds"].values())
    assert result["commit"] == "abc"
    assert len(result["growth"]) == 2
    assert all(rates["stream"] > 0 and rates["forward"] > 0 for rates in result["prediction"].values())


def test_same_accuracy_runs_small_and_goes_on(tmp_path):
    out = tmp_path / "same.jsonl"
    command = [sys.executable, ROOT / "benchmarks/same_accuracy.py", "digits", "--backbone", "mlp", "--epochs", "1"]
    command += ["--methods", "count,attention", "--out", out]
    subprocess.run([*command, "--seeds", "1"], check=True, capture_output=True)
    first = out.read_text()
    subprocess.run([*command, "--seeds", "2"], check=True, capture_output=True)
    assert out.read_text().startswith(first), "a line that is there is not run again"
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["method"], row["loop"], row["seed"]) for row in rows] == [
        *(("count", "fast", 0), ("count", "plain", 0), ("attention", "fast", 0), ("attention", "plain", 0)),
        *(("count", "fast", 1), ("count", "plain", 1), ("attention", "fast", 1), ("attention", "plain", 1)),
    ]
    fast, plain = rows[:2]
    assert fast["instance_accuracy"] == plain["instance_accuracy"], "on a CPU both are the plain loop"
