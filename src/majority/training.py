"""fit: one loop for every method. The epoch of lowest validation bag loss wins; killed at any moment, it goes on."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import nn

from .bags import Bags
from .batches import ResidentBags
from .checkpoint import Weights, load_checkpoint, save_checkpoint
from .errors import InputError, TrainingError
from .files import read_lines, write_atomically
from .inference import choose_device, outputs
from .model import Model
from .progress import epochs_shown

CHECKPOINT, METRICS = "checkpoint.safetensors", "metrics.jsonl"
GPU_CHECKPOINT_SECONDS = 30.0


@dataclass(frozen=True)
class Settings:
    """How to train. The defaults are the `quick` recipe's: for small data on a CPU."""

    epochs: int = 60
    batch_bags: int = 16
    optimizer: str = "adamw"  # or "adam"
    learning_rate: float = 3e-3
    weight_decay: float = 1e-2  # adamw only
    schedule: str = "cosine"  # or "constant"
    warmup_epochs: float = 3.0  # of linear rise; cosine only
    patience: int | None = None  # epochs without a better validation loss before stopping
    max_instances: int | None = None  # of a bag in a step: a fresh random part of larger bags
    precision: str = "float32"  # or "bf16": autocast on a GPU; counts and losses stay float32
    seed: int = 0

    def __post_init__(self):
        choices = {
            "optimizer": ("adam", "adamw"),
            "schedule": ("constant", "cosine"),
            "precision": ("float32", "bf16"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise InputError(f"{name} {getattr(self, name)!r}: take {' or '.join(allowed)}")
        for name in ("epochs", "batch_bags", "patience", "max_instances", "learning_rate"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise InputError(f"{name} is {value}: it must be above 0")


@dataclass
class Fitted:
    """How training went; the model itself was left with the weights of the best epoch."""

    best_epoch: int = -1
    best_loss: float = math.inf
    seconds: float = 0.0
    history: list[dict] = field(default_factory=list)

    @property
    def epochs(self) -> int:
        return len(self.history)


def fit(
    model: Model,
    train: Bags,
    val: Bags,
    settings: Settings | None = None,
    *,
    device: str = "auto",
    folder: str | Path | None = None,
    title: str = "training",
) -> Fitted:
    """Train on bag labels alone, choose the epoch by the validation bags' loss, leave the model at that epoch.

    With a `folder`, every epoch is written to metrics.jsonl and a checkpoint lets the same call continue
    after it was killed; the end is the same as without the interruption.
    """
    settings = settings or Settings()
    train, val = _permitted(model, train), _permitted(model, val)
    device = choose_device(device)
    model.to(device)
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        loop = _Loop(model, train, val, settings, device, Path(folder) if folder else None)
        return loop.run(title)


class _Loop:
    def __init__(self, model: Model, train: Bags, val: Bags, settings: Settings, device: torch.device, folder):
        self.model, self.settings, self.device, self.folder = model, settings, device, folder
        self.train, self.val = ResidentBags(train, device), ResidentBags(val, device)
        self.optimiser = _optimiser(model, settings)
        self.steps_per_epoch = math.ceil(len(train) / settings.batch_bags)
        self.fitted = Fitted()
        self.best: Weights = {}
        self.saved_at = time.monotonic()

    def run(self, title: str) -> Fitted:
        self._resume()
        fitted, settings = self.fitted, self.settings
        with epochs_shown(title, fitted.epochs, settings.epochs) as show:
            while fitted.epochs < settings.epochs and not self._out_of_patience():
                epoch, start = fitted.epochs, time.perf_counter()
                record = {"epoch": epoch, **self._train_epoch(epoch), **self._validate()}
                _check_finite(record)
                if record["val_loss"] < fitted.best_loss:  # the first epoch wins ties
                    fitted.best_epoch, fitted.best_loss = epoch, record["val_loss"]
                    self.best = {name: value.clone() for name, value in self.model.state_dict().items()}
                record["seconds"] = time.perf_counter() - start
                fitted.seconds += record["seconds"]
                fitted.history.append(record)
                self._note(record)
                show(record)
        self._checkpoint(force=True)
        self.model.load_state_dict(self.best)
        return fitted

    # ------------------------------------------------------------------ one epoch

    def _train_epoch(self, epoch: int) -> dict:
        torch.manual_seed(_seed_of(self.settings.seed, epoch))  # dropout
        rng = np.random.default_rng([self.settings.seed, epoch])  # order of bags, parts of bags
        self.model.train()
        loss_sum = torch.zeros((), device=self.device)
        right = torch.zeros((), device=self.device)
        batches = self.train.shuffled(self.settings.batch_bags, rng, self.settings.max_instances)
        for step, batch in enumerate(batches, start=epoch * self.steps_per_epoch):
            self._set_rate(step)
            with self._autocast():
                output = self.model(batch.instances, batch.segments)
            losses = self.model.head.losses(output, batch.segments, batch.target)
            self.optimiser.zero_grad(set_to_none=True)
            losses.mean().backward()
            self.optimiser.step()
            loss_sum += losses.detach().sum()
            right += (output.bag_log_probs.argmax(dim=1) == batch.target.labels).sum()
        n = len(self.train.bags)
        rate = self.optimiser.param_groups[0]["lr"]
        return {"train_loss": loss_sum.item() / n, "train_bag_accuracy": right.item() / n, "learning_rate": rate}

    def _validate(self) -> dict:
        loss_sum = torch.zeros((), device=self.device)
        right = torch.zeros((), device=self.device)
        with self._autocast():
            for batch, output in outputs(self.model, self.val):
                loss_sum += self.model.head.losses(output, batch.segments, batch.target).sum()
                right += (output.bag_log_probs.argmax(dim=1) == batch.target.labels).sum()
        n = len(self.val.bags)
        return {"val_loss": loss_sum.item() / n, "val_bag_accuracy": right.item() / n}

    def _autocast(self):
        enabled = self.settings.precision == "bf16" and self.device.type == "cuda"
        return torch.autocast(self.device.type, torch.bfloat16, enabled=enabled)

    def _set_rate(self, step: int) -> None:
        s = self.settings
        if s.schedule == "cosine":
            total, warm = s.epochs * self.steps_per_epoch, s.warmup_epochs * self.steps_per_epoch
            rate = s.learning_rate * min((step + 1) / max(warm, 1), 1)
            if step >= warm:
                rate *= 0.5 * (1 + math.cos(math.pi * (step - warm) / max(total - warm, 1)))
            for group in self.optimiser.param_groups:
                group["lr"] = rate

    def _out_of_patience(self) -> bool:
        patience = self.settings.patience
        return patience is not None and self.fitted.epochs - 1 - self.fitted.best_epoch >= patience

    # ------------------------------------------------------------------ files

    def _resume(self) -> None:
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = []
        if (self.folder / CHECKPOINT).exists():
            self.best, progress = load_checkpoint(self.folder / CHECKPOINT, self.model, self.optimiser, self.device)
            lines = read_lines(self.folder / METRICS)[: progress.pop("epochs")]
            self.fitted = Fitted(**progress, history=lines)
        # Lines after the checkpoint belong to epochs that will be trained again.
        text = "".join(json.dumps(line) + "\n" for line in lines)
        write_atomically(self.folder / METRICS, lambda place: place.write_text(text))

    def _note(self, record: dict) -> None:
        if self.folder is None:
            return
        with (self.folder / METRICS).open("a") as file:
            file.write(json.dumps(record) + "\n")
        self._checkpoint()

    def _checkpoint(self, force: bool = False) -> None:
        """Every epoch on a CPU, at most every GPU_CHECKPOINT_SECONDS on a GPU."""
        waited = time.monotonic() - self.saved_at
        if self.folder is None or (not force and self.device.type == "cuda" and waited < GPU_CHECKPOINT_SECONDS):
            return
        f = self.fitted
        progress = {"epochs": f.epochs, "best_epoch": f.best_epoch, "best_loss": f.best_loss, "seconds": f.seconds}
        save_checkpoint(self.folder / CHECKPOINT, self.model, self.best, self.optimiser, progress)
        self.saved_at = time.monotonic()


def _permitted(model: Model, bags: Bags) -> Bags:
    """Instance labels reach the loop only for a method that says that it sees them."""
    if bags.classes != model.spec.classes:
        raise InputError(
            f"the bags have classes {bags.classes}, the model {model.spec.classes}: build it from these bags"
        )
    if not model.head.sees_instance_labels:
        return bags.blind()
    if bags.instance_labels is None:
        raise InputError(
            f"method {model.spec.method} is a reference line that needs instance labels, these bags have none"
        )
    return bags


def _optimiser(model: nn.Module, settings: Settings) -> torch.optim.Optimizer:
    if settings.optimizer == "adam":
        return torch.optim.Adam(model.parameters(), lr=settings.learning_rate)
    return torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)


def _seed_of(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])


def _check_finite(record: dict) -> None:
    for name in ("train_loss", "val_loss"):
        if not math.isfinite(record[name]):
            raise TrainingError(
                f"{name} is {record[name]} in epoch {record['epoch']}: training stopped, nothing of this epoch was "
                "saved. Try a lower learning rate, or look for extreme values in the instances"
            )
