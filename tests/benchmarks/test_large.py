"""benchmarks/large.py runs small and cleans up; what it measures is not judged here."""

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@pytest.fixture
def large(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    return importlib.import_module("large")


def run(large, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["large.py", *map(str, arguments)])
    large.main()


def test_large_runs_small(large, run_program, tmp_path, monkeypatch, capsys):
    folder, out, own_process = tmp_path / "bags", tmp_path / "results" / "cpu.json", large.in_a_process
    calls = []

    def run_copy(words, **options):
        """Starting Python takes seconds: the process is a copy of one that has imported the package."""
        if words[0] != sys.executable:
            return subprocess.run(words, **options)
        program = "import runpy; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
        return subprocess.CompletedProcess(words, 0, run_program(program, *words[1:]))

    monkeypatch.setattr(large, "subprocess", SimpleNamespace(run=run_copy))

    def one_process_for_most(*variant):
        """Only the first variant gets a process of its own."""
        calls.append(variant)
        return own_process(*variant) if len(calls) == 1 else large.train(*variant)

    monkeypatch.setattr(large, "in_a_process", one_process_for_most)
    shape = ("--bags", 20, "--size", 30, "--width", 8, "--max-instances", 5, "--epochs", 1)
    run(large, monkeypatch, folder, *shape, "--commit", "abc", "--out", out)
    result = json.loads(out.read_text())
    assert result["commit"] == "abc"
    assert result["environment"]["cores"] >= 1
    assert [row["max_instances"] for row in result["variants"].values()] == [None, 5]
    for row in result["variants"].values():
        assert row["streamed"]["instances"] == row["in memory"]["instances"] == 600
        assert row["streamed"]["val_bag_accuracy"] == row["in memory"]["val_bag_accuracy"]
        assert row["streamed"]["peak_resident_gib"] > 0.05
    assert "streamed at" in capsys.readouterr().out
    assert not list(folder.iterdir())


def test_large_refuses_a_folder_in_use_and_a_full_disk(large, tmp_path, monkeypatch):
    (tmp_path / "mine.npy").write_text("keep")
    with pytest.raises(SystemExit, match="is not empty"):
        run(large, monkeypatch, tmp_path)
    with pytest.raises(SystemExit, match=r"GB free, .* GB are needed"):
        run(large, monkeypatch, tmp_path / "new", "--bags", 10**9)
    assert (tmp_path / "mine.npy").exists()
