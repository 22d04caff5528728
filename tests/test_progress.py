"""What is seen of a long training: a bar in a terminal, lines in a log."""

import os
import subprocess
import sys

import pytest

from majority import progress

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


def test_a_terminal_shows_a_bar(tmp_path):
    ours, theirs = pytest.importorskip("pty").openpty()
    command = [sys.executable, "-m", "majority", *WORDS, "--out", tmp_path / "run"]
    environment = os.environ | {"COLUMNS": "160", "TERM": "xterm"}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs, env=environment)
    os.close(theirs)
    seen = b""
    try:
        while read := os.read(ours, 4096):
            seen += read
    except OSError:  # the other side is closed
        pass
    assert process.wait() == 0
    assert "3/3" in seen.decode()
    assert "epochs ·" not in seen.decode()
