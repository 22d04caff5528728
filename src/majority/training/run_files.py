"""The files of a training: metrics.jsonl, one line per epoch, and the checkpoint that it can continue from."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch

from ..errors import InputError
from ..files import append_line, write_lines
from ..parsing import read_records
from ..records import Epoch
from .callbacks import Callback
from .checkpoint import load_checkpoint, save_checkpoint
from .state import TrainingState

CHECKPOINT, METRICS = "checkpoint.safetensors", "metrics.jsonl"
GPU_CHECKPOINT_SECONDS = 30.0


class RunFiles(Callback):
    """Writes both files after every epoch. On a GPU, checkpoints are at least GPU_CHECKPOINT_SECONDS apart."""

    def __init__(self, folder: Path, state: TrainingState, device: torch.device):
        self.folder, self.state, self.device = folder, state, device
        self.saved_at = time.monotonic()

    def resume(self) -> None:
        """Restore the state of an interrupted training. Epochs after its checkpoint are trained again."""
        self.folder.mkdir(parents=True, exist_ok=True)
        records: list[dict[str, Any]] = []
        if (self.folder / CHECKPOINT).exists():
            epochs = load_checkpoint(self.folder / CHECKPOINT, self.state, self.device)
            records = [dict(record) for record in read_records(Epoch, self.folder / METRICS, limit=epochs)]
            if len(records) < epochs:
                raise InputError(
                    f"{self.folder} has a checkpoint of {epochs} epochs but {len(records)} in {METRICS}: "
                    "put that file back, or remove the folder to start again"
                )
            self.state.fitted.history = records
        write_lines(self.folder / METRICS, records)

    def on_epoch_end(self, record: dict[str, Any]) -> None:
        append_line(self.folder / METRICS, record)
        if self.device.type != "cuda" or time.monotonic() - self.saved_at >= GPU_CHECKPOINT_SECONDS:
            self.save_checkpoint()

    def save_checkpoint(self) -> None:
        save_checkpoint(self.folder / CHECKPOINT, self.state)
        self.saved_at = time.monotonic()
