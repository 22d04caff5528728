"""Run: what a recipe works with. A recipe of several stages never does a finished one again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from ..data.bags import Bags
from ..errors import InputError
from ..files import read_json, read_lines, write_json
from ..inference.weights import write_weights
from ..model import Model
from ..training.loop import CHECKPOINT, METRICS, Fitted, fit
from .plan import Plan

SEEDS_APART = 1_000_003  # no seeds that people choose differ by it
STAGES, OUTCOME, WEIGHTS = "stages", "outcome.json", "weights.safetensors"


@dataclass(frozen=True)
class Trained:
    """What a recipe leaves: a model, and how it came about."""

    model: Model
    fitted: Fitted  # of this model
    stages: dict[str, Fitted] = field(default_factory=dict)  # all of them, where there are any
    about: dict = field(default_factory=dict)  # the recipe's own entry in result.json

    def summary(self) -> dict:
        """Best epoch and epochs of the model, seconds of all the work."""
        work = self.stages.values() or [self.fitted]
        summary = {
            "best_epoch": self.fitted.best_epoch,
            "epochs": self.fitted.epochs,
            "seconds": round(sum(fitted.seconds for fitted in work), 3),
            "capture_seconds": round(sum(fitted.capture_seconds for fitted in work), 3),
        }
        if self.stages:
            summary["stages"] = {
                name: {"best_epoch": fitted.best_epoch, "epochs": fitted.epochs, fitted.loss_name: fitted.best_loss}
                for name, fitted in self.stages.items()
            }
        return summary | self.about


@dataclass(frozen=True)
class Run:
    folder: Path
    train: Bags
    val: Bags
    plan: Plan
    fresh_model: Callable[..., Model]  # with the seed's random weights; given a number, with others
    title: str
    device: str = "auto"
    eager: bool = False
    log: Callable[[str], None] = lambda line: None

    def fit(self, model: Model, folder: Path, title: str, **more) -> Fitted:
        """One training of the model as planned."""
        return fit(model, self.train, self.val, self.plan.training, **self.where(folder, title), **more)

    def seed_of(self, number: int) -> int:
        """Of the number's training in this run."""
        return self.plan.training.seed + SEEDS_APART * number

    def where(self, folder: Path, title: str) -> dict:
        """Of any training in this run."""
        return {"device": self.device, "folder": folder, "title": title, "eager": self.eager}

    def stage(self, name: str, trained: nn.Module, train: Callable[[Path, str], Fitted]) -> Fitted:
        """Train a model or a part of it in a folder of its own (`train` gets that and a title), or read what came
        of it before."""
        folder = self.folder / STAGES / name
        if not ((folder / OUTCOME).exists() and (folder / WEIGHTS).exists()):
            fitted = train(folder, f"{self.title}, stage {name}")
            write_weights(folder / WEIGHTS, trained.state_dict())
            write_json(folder / OUTCOME, fitted.outcome)
        (folder / CHECKPOINT).unlink(missing_ok=True)
        fitted = Fitted(**read_json(folder / OUTCOME), history=read_lines(folder / METRICS))
        trained.to(memory_format=torch.contiguous_format)  # however it was trained: read back, it would be no other
        trained.load_state_dict(_weights(folder))
        which = "best, validation" if fitted.loss_name == "val_loss" else "kept as the last, training"
        which = f"epoch {fitted.best_epoch} of 0 to {fitted.epochs - 1} was {which}"
        self.log(f"stage {name}: {which} loss {fitted.best_loss:.4f}")
        return fitted


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    try:
        return load_file(folder / WEIGHTS)
    except SafetensorError as error:
        raise InputError(f"{folder / WEIGHTS} is damaged ({error}): remove it and run again") from None


def train_once(run: Run) -> Trained:
    """A recipe of one training, in the run folder itself."""
    model = run.fresh_model()
    return Trained(model, run.fit(model, run.folder, run.title))


def temporary_files(folder: Path) -> list[Path]:
    """What stands in a run folder only until the run is finished: its checkpoint, and the weights of its stages."""
    return [*folder.glob(CHECKPOINT), *folder.glob(f"{STAGES}/*/*.safetensors")]
