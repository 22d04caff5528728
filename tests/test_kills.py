"""Faults at some writes of some commands; `python tests/kills.py` tries all of them."""

import json
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("kills.py")
NOT_ATOMIC = """
import majority.files, majority.nn.weights

def write_in_place(path, write):
    write(path)

majority.files.write_atomically = majority.nn.weights.write_atomically = write_in_place
"""


@pytest.fixture
def run_script(processes, tmp_path):
    """Run the script in a process that has imported the package: its exit code and what it prints."""

    def run(*words, before=""):
        printed = tmp_path / "printed"
        program = f"""
import os, runpy, sys
file = open({str(printed)!r}, "w")
os.dup2(file.fileno(), 1)
os.dup2(file.fileno(), 2)
sys.path.insert(0, {str(SCRIPT.parent)!r})
{before}
sys.argv = ["kills.py", *{[*map(str, words)]!r}]
runpy.run_path({str(SCRIPT)!r}, run_name="__main__")
"""
        process = processes.Process(target=exec, args=(program, {}))
        process.start()
        process.join()
        return process.exitcode, printed.read_text()

    return run


def test_commands_end_with_the_same_files_after_a_fault(run_script, tmp_path):
    words = ["--only", "quick,mpem,census,corrected,refit,study", "--points", "2", "--out", tmp_path / "counts.json"]
    code, printed = run_script(*words)
    assert code == 0, printed
    counts = json.loads((tmp_path / "counts.json").read_text())["commands"]
    assert set(counts) == {"quick", "mpem", "census", "corrected", "refit", "study"}
    assert all(sum(command["faults"].values()) == 2 for command in counts.values())
    assert counts["census"]["writes"] > counts["quick"]["writes"] > 20


def test_writes_that_are_not_atomic_are_found(run_script):
    code, printed = run_script("--only", "quick", "--faults", "half", "--points", "2", before=NOT_ATOMIC)
    assert code == 1, printed
    assert "is damaged" in printed
