"""What is seen of a long training: a bar in a terminal, lines in a log."""

import os
import sys
import threading
from contextlib import redirect_stderr, suppress

import pytest

from majority.cli.app import main
from majority.training import progress

WORDS = ["train", "digits", "--bags", "20", "--bag-size", "8", "--epochs", "3", "--recipe", "quick", "--device", "cpu"]


def test_a_log_gets_a_line_now_and_then(majority, monkeypatch, tmp_path):
    monkeypatch.setattr(progress, "SECONDS_APART", 0)
    code, out, log = majority(*WORDS, "--out", tmp_path / "run")
    assert code == 0
    told = [line for line in log.splitlines() if "epochs" in line]
    assert len(told) == 3
    assert told[1].startswith("digits various adjusted-mean fold 0: 2 of 3 epochs · loss ")
    assert "· validation " in told[1]
    assert "%" in told[1]
    assert "of 3 epochs ·" not in out


def test_a_short_training_says_nothing_between(majority, tmp_path):
    assert "epochs ·" not in majority(*WORDS, "--out", tmp_path / "run")[2]


def test_lines_are_apart(monkeypatch, capsys):
    now = iter([0, 30, 60, 60, 119, 120, 120])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    show = progress._lines("title", 9)
    for epoch in range(4):
        show({"epoch": epoch, "train_loss": 1.0})
    assert capsys.readouterr().err == "title: 2 of 9 epochs · loss 1.000\ntitle: 4 of 9 epochs · loss 1.000\n"


def test_a_terminal_shows_a_bar(monkeypatch, tmp_path):
    ours, theirs = pytest.importorskip("pty").openpty()
    read = []

    def look():
        with suppress(OSError):  # the other side is closed
            while piece := os.read(ours, 4096):
                read.append(piece)

    reader = threading.Thread(target=look)
    reader.start()
    monkeypatch.setattr(sys, "argv", ["majority", *WORDS, "--out", str(tmp_path / "run")])
    for name, value in {"COLUMNS": "160", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    with open(theirs, "w") as terminal, redirect_stderr(terminal), pytest.raises(SystemExit) as stopped:
        main()
    reader.join()
    os.close(ours)
    assert not stopped.value.code
    seen = b"".join(read).decode()
    assert "3/3" in seen
    assert "epochs ·" not in seen
