"""The files of a training: metrics.jsonl, one line per epoch, and the checkpoint that it can continue from.

A checkpoint has the network's weights, the best weights and the optimizer's state, as safetensors, never pickle. No
generator state is saved: every random draw comes from a generator that is seeded by (seed, epoch).
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import torch
from annotated_types import Ge, Le
from torch import Tensor, nn

from ..errors import InputError
from ..fields import from_json
from ..files import CURE, append_line, decode_json, read_lines, write_lines
from ..nn.weights import Weights, check_weights, read_weights, write_weights
from . import distributed
from .callbacks import Callback, Fitted

CHECKPOINT, METRICS = "checkpoint.safetensors", "metrics.jsonl"
CHECKPOINT_SECONDS, GPU_CHECKPOINT_SECONDS = 1.0, 30.0  # a checkpoint of a short epoch takes longer than the epoch
START_AGAIN = "remove it and run again from the start"
Share = Annotated[float, Ge(0), Le(1)]


class Epoch(NamedTuple):
    """A line of metrics.jsonl; a stage that validates nothing has no val_ fields."""

    epoch: Annotated[int, Ge(0)]
    train_loss: float
    train_bag_accuracy: Share = 0  # of a training that learns bag labels
    val_loss: float = 0
    val_bag_accuracy: Share = 0


def read_history(path: Path, cure: str = CURE, limit: int | None = None) -> list[dict[str, Any]]:
    """The first `limit` lines of a metrics.jsonl. They may have more than the fields of an `Epoch`."""
    lines = read_lines(path, cure, limit)
    for number, line in enumerate(lines, start=1):
        known = {name: line[name] for name in Epoch._fields if name in line}
        from_json(Epoch, known, f"{path}, line {number}", cure)
    return lines


@dataclass
class TrainingState:
    """What changes from epoch to epoch. Training can continue from a copy of it."""

    network: nn.Module  # the model and its objective
    optimizer: torch.optim.Optimizer
    fitted: Fitted = field(default_factory=Fitted)
    best_weights: Weights = field(default_factory=dict)  # of the best epoch; empty if the last epoch is kept

    @property
    def tensors(self) -> Weights:
        optimizer = self.optimizer.state_dict()["state"].items()
        return {
            **_with_prefix("model", self.network.state_dict()),
            **_with_prefix("best", self.best_weights),
            **{f"optimizer.{number}.{name}": value for number, of in optimizer for name, value in of.items()},
        }

    def restore(self, tensors: Weights) -> None:
        parts: dict[str, Weights] = defaultdict(dict)
        for name, value in tensors.items():
            part, _, rest = name.partition(".")
            parts[part][rest] = value
        self.network.load_state_dict(parts["model"])
        self.best_weights = parts["best"]
        moments: dict[int, Weights] = defaultdict(dict)
        for name, value in parts["optimizer"].items():
            number, _, key = name.partition(".")
            moments[int(number)][key] = value
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})
        for weight, values in self.optimizer.state.items():  # in its memory layout, which a fused step needs
            values.update({key: torch.empty_like(weight).copy_(value) for key, value in values.items() if value.ndim})

    def share(self) -> None:
        """Every process of a training gets the state of the first one."""

        def on_cpu() -> tuple[Weights, Fitted]:
            return {name: value.cpu() for name, value in self.tensors.items()}, self.fitted

        tensors, fitted = distributed.from_first(on_cpu)
        if not distributed.is_first():
            self.restore(tensors)
            self.fitted = fitted


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
            records = read_history(self.folder / METRICS, limit=epochs)
            if len(records) < epochs:
                raise InputError(
                    f"{self.folder} has a checkpoint of {epochs} epochs but {len(records)} in {METRICS}: "
                    "put that file back, or remove the folder to start again"
                )
            self.state.fitted.history = records
        write_lines(self.folder / METRICS, records)

    def on_epoch_end(self, record: dict[str, Any]) -> None:
        append_line(self.folder / METRICS, record)
        self.save_after(GPU_CHECKPOINT_SECONDS if self.device.type == "cuda" else CHECKPOINT_SECONDS)

    def save_after(self, seconds: float) -> None:
        """Save a checkpoint if the last one is so old."""
        if time.monotonic() - self.saved_at >= seconds:
            save_checkpoint(self.folder / CHECKPOINT, self.state)
            self.saved_at = time.monotonic()


def save_checkpoint(path: Path, state: TrainingState) -> None:
    progress = {"epochs": state.fitted.epochs, **state.fitted.outcome}
    write_weights(path, state.tensors, {"progress": json.dumps(progress)})


def load_checkpoint(path: Path, state: TrainingState, device: torch.device) -> int:
    """Restore the state, all but its history, and return the number of epochs that were trained.

    Everything is checked before anything is restored.
    """
    tensors, notes = read_weights(path, START_AGAIN, str(device))
    progress = decode_json(notes.get("progress", ""), path, START_AGAIN)
    epochs = progress.pop("epochs", None)
    fitted = from_json(Fitted, progress, path, START_AGAIN)
    if not isinstance(epochs, int) or not 0 <= fitted.best_epoch < epochs:
        raise InputError(f"{path} is damaged (best epoch {fitted.best_epoch} of {epochs}): {START_AGAIN}")
    check_weights(tensors, _expected(tensors, state), path, START_AGAIN)
    state.restore(tensors)
    state.fitted = fitted
    return epochs


def _expected(tensors: Weights, state: TrainingState) -> Weights:
    """The tensors that belong beside these. A weight that no step has changed yet has no state of the optimizer."""
    expected = _with_prefix("model", state.network.state_dict())
    if any(name.startswith("best.") for name in tensors):
        expected |= _with_prefix("best", state.network.get_submodule("model").state_dict())
    changed = {name.rpartition(".")[0] for name in tensors}
    for number, weight in enumerate(weight for group in state.optimizer.param_groups for weight in group["params"]):
        prefix = f"optimizer.{number}"
        if prefix in changed:
            adam = {"step": torch.tensor(0.0), "exp_avg": weight, "exp_avg_sq": weight}
            expected |= _with_prefix(prefix, {"moment": weight} if f"{prefix}.moment" in tensors else adam)
    return expected


def _with_prefix(prefix: str, tensors: dict[str, Tensor]) -> Weights:
    return {f"{prefix}.{name}": value for name, value in tensors.items()}
