"""Faults at some writes of one command; tests/nightly tries more of them, and the other commands."""

import json

NOT_ATOMIC = """
import majority.files, majority.nn.weights

def write_in_place(path, write):
    write(path)

majority.files.write_atomically = majority.nn.weights.write_atomically = write_in_place
"""


def test_a_command_ends_with_the_same_files_after_a_fault(run_kills, tmp_path):
    code, printed = run_kills("--only", "quick", "--points", "2", "--out", tmp_path / "counts.json")
    assert code == 0, printed
    counts = json.loads((tmp_path / "counts.json").read_text())["commands"]["quick"]
    assert sum(counts["faults"].values()) == 2
    assert counts["writes"] > 20


def test_writes_that_are_not_atomic_are_found(run_kills):
    code, printed = run_kills("--only", "quick", "--faults", "half", "--points", "2", before=NOT_ATOMIC)
    assert code == 1, printed
    assert "is damaged" in printed
