"""How often the files of a training are written."""

import json

import pytest
import torch

from majority.training import run_files
from majority.training.checkpoint import load_checkpoint
from majority.training.run_files import CHECKPOINT, METRICS, RunFiles
from majority.training.state import TrainingState

SECONDS = run_files.CHECKPOINT_SECONDS


def new_state():
    network = torch.nn.Linear(2, 2)
    return TrainingState(network, torch.optim.AdamW(network.parameters()))


def epochs_in(checkpoint):
    return load_checkpoint(checkpoint, new_state(), torch.device("cpu")) if checkpoint.exists() else None


@pytest.mark.parametrize(
    ("device", "epoch_seconds", "expected", "last"),
    [
        ("cpu", 14, [1, 2, 3, 4, 5], 5),
        ("cpu", 0.4, [None, None, 3, 3, 3], 3),
        ("cuda", 14, [None, None, 3, 3, 3], 5),
        ("cuda", 0.1, [None] * 5, None),
    ],
)
def test_checkpoints_are_a_second_apart_and_on_a_gpu_half_a_minute(
    tmp_path, monkeypatch, device, epoch_seconds, expected, last
):
    """A kill loses less than that, and at the end of a training less than a second."""
    now = 0.0
    monkeypatch.setattr(run_files, "CHECKPOINT_SECONDS", SECONDS)
    monkeypatch.setattr(run_files.time, "monotonic", lambda: now)
    state, saved = new_state(), []
    files = RunFiles(tmp_path, state, torch.device(device))
    files.resume()
    for epoch in range(5):
        now += epoch_seconds
        state.fitted.history.append({"epoch": epoch})
        state.fitted.best_epoch, state.fitted.best_loss = epoch, 1.0
        files.on_epoch_end({"epoch": epoch})
        saved.append(epochs_in(tmp_path / CHECKPOINT))
    assert saved == expected
    files.save_last_checkpoint()
    assert epochs_in(tmp_path / CHECKPOINT) == last
    lines = (tmp_path / METRICS).read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [0, 1, 2, 3, 4], "one line after every epoch"


def test_the_line_of_an_epoch_is_written_before_its_checkpoint(tmp_path, monkeypatch):
    """A kill between the two leaves a line too many, which is dropped; one too few would be refused."""
    lines, files = [], RunFiles(tmp_path, new_state(), torch.device("cpu"))
    files.resume()
    monkeypatch.setattr(
        run_files, "save_checkpoint", lambda *given: lines.append(len((tmp_path / METRICS).read_text().splitlines()))
    )
    for epoch in range(3):
        files.on_epoch_end({"epoch": epoch})
    assert lines == [1, 2, 3]
