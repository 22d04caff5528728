"""The progress of a long training: a bar in a terminal, lines in a log."""

import os
import threading
from contextlib import redirect_stderr, suppress

import numpy as np
import pytest

from majority import Bags, Callback, Settings, build_model, fit
from majority.training import progress

HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
WORDS = ["train", "digits", "--bags", "20", "--bag-size", "8", "--epochs", "3", "--recipe", "quick", "--device", "cpu"]


def test_the_stages_of_a_recipe_are_one_progress(majority, monkeypatch, tmp_path):
    monkeypatch.setattr(progress, "SECONDS_APART", 0)
    words = [*WORDS, "--recipe", "mpem", "--backbone", "mlp", "--set", "mpem.ratios=[0.5]", "--out", tmp_path / "run"]
    lines = [line for line in majority(*words)[2].splitlines() if "epochs" in line]
    assert len(lines) == 6
    assert lines[0].startswith("stage 1 of 3: first · digits various count fold 0: 1 of 6 epochs · about 0:00:0")
    assert "· validation " in lines[1]
    assert "%" in lines[1]
    assert lines[3].startswith("stage 2 of 3: r0.5 · digits various count fold 0: 4 of 6 epochs · about 0:00:0")


@pytest.fixture
def terminal(monkeypatch):
    """A function that runs its argument with a terminal as standard error, and returns what the terminal showed."""
    for name, value in {"COLUMNS": "80", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)

    def run(function):
        ours, theirs = pytest.importorskip("pty").openpty()
        shown = []

        def collect():
            with suppress(OSError):  # the other side is closed
                while piece := os.read(ours, 4096):
                    shown.append(piece)

        collector = threading.Thread(target=collect)
        collector.start()
        with open(theirs, "w") as file, redirect_stderr(file):
            function()
        collector.join()
        os.close(ours)
        return b"".join(shown).decode()

    return run


def test_the_bar_is_removed_when_a_training_fails(terminal, stop_after, capsys):
    rng = np.random.default_rng(0)
    bags = Bags.from_lists([rng.normal(size=(3, 2)).astype(np.float32) for _ in range(4)], ["a", "b"] * 2)

    class Print(Callback):
        def on_epoch_end(self, record):
            print("epoch", record["epoch"] + 1)

    def train():
        settings = Settings(epochs=5, batch_bags=2)
        with pytest.raises(KeyboardInterrupt):
            fit(
                build_model(bags),
                bags,
                bags,
                settings,
                device="cpu",
                title="t" * 70,
                callbacks=[Print(), stop_after(2)],
            )

    shown = terminal(train)
    assert "epoch 2/5" in shown, "also in a terminal of 80 columns"
    assert "epochs ·" not in shown
    assert shown.count(HIDE_CURSOR) == shown.count(SHOW_CURSOR) == 1
    assert capsys.readouterr().out == "epoch 1\nepoch 2\n", "output to a file is not sent to the terminal"
