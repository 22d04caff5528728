"""Many damaged files, and faults at many writes of every command."""

import json
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

INPUTS = 3_000
COMMANDS = (
    "quick", "paper", "mpem", "census", "corrected", "refit", "predict", "blocks", "report", "study", "study-report",
)  # fmt: skip


def test_changed_files_end_in_a_result_or_a_message(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    import fuzz

    (tmp_path / "seeds").mkdir()
    targets = fuzz.write_seeds(tmp_path / "seeds")
    counts = fuzz.fuzz(targets, tmp_path / "seeds", 1, lambda number: number < INPUTS)
    for name in [name for name in sys.modules if name.split(".")[0] in ("fuzz", "fuzzing")]:
        sys.modules.pop(name)
    assert counts.failures == {}
    assert counts.endings["a message"] > INPUTS / 3


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_ends_with_the_same_files_after_a_fault(run_kills, tmp_path, command):
    code, printed = run_kills("--only", command, "--points", "12", "--out", tmp_path / "counts.json")
    assert code == 0, printed
    counts = json.loads((tmp_path / "counts.json").read_text())["commands"][command]
    assert sum(counts["faults"].values()) == 12
