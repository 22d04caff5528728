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
