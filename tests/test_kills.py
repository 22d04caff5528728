"""Faults at some writes of some commands; `python tests/kills.py` tries all of them."""

import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("kills.py")
NOT_ATOMIC = f"""
import os, runpy, sys
sys.path.insert(0, {str(SCRIPT.parent)!r})
import majority.files, majority.inference.weights

def write_in_place(path, write):
    write(path)

majority.files.write_atomically = majority.inference.weights.write_atomically = write_in_place
sys.argv = ["kills.py", "--only", "quick", "--faults", "half", "--points", "2"]
runpy.run_path({str(SCRIPT)!r}, run_name="__main__")
"""


def run_script(words):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True, env=environment)


def test_commands_end_with_the_same_files_after_a_fault(tmp_path):
    words = [SCRIPT, "--only", "quick,mpem,census,study", "--points", "2", "--out", tmp_path / "counts.json"]
    ended = run_script(words)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    counts = json.loads((tmp_path / "counts.json").read_text())["commands"]
    assert set(counts) == {"quick", "mpem", "census", "study"}
    assert all(sum(command["faults"].values()) == 2 for command in counts.values())
    assert counts["census"]["writes"] > counts["quick"]["writes"] > 20


def test_writes_that_are_not_atomic_are_found():
    ended = run_script(["-c", NOT_ATOMIC])
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "is damaged" in ended.stdout
