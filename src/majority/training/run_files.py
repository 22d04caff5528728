"""The files of a training: metrics.jsonl, one line per epoch, and the checkpoint that it can continue from."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch

from ..errors import InputError
from ..files import append_line, read_lines, write_lines
from .callbacks import Callback
from .checkpoint import load_checkpoint, save_checkpoint
from .state import TrainingState

CHECKPOINT, METRICS = "checkpoint.safetensors", "metrics.jsonl"
CHECKPOINT_SECONDS, GPU_CHECKPOINT_SECONDS = 1.0, 30.0  # a checkpoint of a short epoch takes longer than the epoch


class RunFiles(Callback):
    """Writes a line after every epoch, and the checkpoint if the last one is old enough: a kill loses the seconds since
    then."""

    def __init__(self, folder: Path, state: TrainingState, device: torch.device):
        self.folder, self.state, self.device = folder, state, device
        self.saved_at = time.monotonic()

    def resume(self) -> None:
        """Restore the state of an interrupted training. Epochs after its checkpoint are trained again."""
        self.folder.mkdir(parents=True, exist_ok=True)
        records: list[dict[str, Any]] = []
        if (self.folder / CHECKPOINT).exists():
            epochs = load_checkpoint(self.folder / CHECKPOINT, self.state, self.device)
            records = read_lines(self.folder / METRICS, limit=epochs)
            if len(records) < epochs:
                raise InputError(
                    f"{self.folder} has a checkpoint of {epochs} epochs but {len(records)} in {METRICS}: "
                    "put that file back, or remove the folder to start again"
                )
            self.state.fitted.history = records
        write_lines(self.folder / METRICS, records)

    def on_epoch_end(self, record: dict[str, Any]) -> None:
        append_line(self.folder / METRICS, record)
        self._save_checkpoint_after(GPU_CHECKPOINT_SECONDS if self.device.type == "cuda" else CHECKPOINT_SECONDS)

    def save_last_checkpoint(self) -> None:
        """That of the last epoch, before the model gets the weights of the best one."""
        self._save_checkpoint_after(CHECKPOINT_SECONDS)

    def _save_checkpoint_after(self, seconds: float) -> None:
        if time.monotonic() - self.saved_at >= seconds:
            save_checkpoint(self.folder / CHECKPOINT, self.state)
            self.saved_at = time.monotonic()
