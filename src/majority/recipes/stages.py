"""Run: what a recipe works with. A finished stage of a recipe is never trained again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..data.bags import Bags
from ..errors import InputError
from ..files import write_json
from ..log import Log, no_log
from ..nn.model import Model
from ..nn.weights import Weights, check_weights, read_weights, write_weights
from ..parsing import read_record, read_records
from ..records import Epoch, Outcome
from ..training.callbacks import Callback
from ..training.distributed import from_first
from ..training.loop import fit
from ..training.objectives import BagLoss, Objective
from ..training.run_files import CHECKPOINT, METRICS
from ..training.settings import Settings
from ..training.state import Fitted
from .plan import Plan

SEED_STEP = 1_000_003  # between the seeds of one run's trainings; users do not choose seeds this far apart
STAGES, OUTCOME, WEIGHTS = "stages", "outcome.json", "weights.safetensors"
ROBUST = "robust"  # the folder of a second training, without labels that seem to be wrong
REFIT = "refit"  # the folder of a second training, on all bags
LABEL_FREE = ("pretrain", "patches")  # stages that use no labels: a training with other labels takes their results
REMOVE_FILE = "remove it and run again, which trains this stage again"
REMOVE_FOLDER = "remove the folder of this stage and run again"


@dataclass(frozen=True)
class Trained:
    """The result of a recipe: a model, and how it was trained."""

    model: Model
    fitted: Fitted  # the training of this model
    stages: dict[str, Fitted] = field(default_factory=dict)  # every stage, if the recipe has several
    about: dict[str, Any] = field(default_factory=dict)  # the recipe's own entry in result.json
    first: Trained | None = None  # the training that showed which labels are wrong

    def summary(self) -> dict[str, Any]:
        """Best epoch and epochs of the model; seconds of all stages."""
        copied = () if self.first is None else LABEL_FREE
        trainings = [one for name, one in self.stages.items() if name not in copied] or [self.fitted]
        summary: dict[str, Any] = {
            "best_epoch": self.fitted.best_epoch,
            "epochs": self.fitted.epochs,
            "seconds": round(sum(fitted.seconds for fitted in trainings), 3),
            "capture_seconds": round(sum(fitted.capture_seconds for fitted in trainings), 3),
        }
        if self.first is not None:
            before = self.first.summary()
            summary |= {name: round(summary[name] + before[name], 3) for name in ("seconds", "capture_seconds")}
        if self.stages:
            summary["stages"] = {
                name: {"best_epoch": fitted.best_epoch, "epochs": fitted.epochs, fitted.loss_name: fitted.best_loss}
                for name, fitted in self.stages.items()
            }
        return summary | self.about

    @property
    def chosen(self) -> Chosen:
        """What the validation bags have chosen."""
        epochs = {name: fitted.best_epoch + 1 for name, fitted in self.stages.items()}
        return Chosen(epochs or {"": self.fitted.best_epoch + 1}, self.about)


@dataclass(frozen=True)
class Chosen:
    """What a training with validation bags has chosen, for another one on all bags, which has no validation bags."""

    epochs: dict[str, int]  # of each stage; of "" if there are no stages
    about: dict[str, Any]  # the recipe's own choices: its entry in result.json


@dataclass(frozen=True)
class Run:
    """What the `train` function of a recipe gets. Its public name is `majority.recipes.Run`."""

    folder: Path
    train: Bags
    val: Bags
    plan: Plan
    fresh_model: Callable[..., Model]  # random weights by the run's seed, or by the seed of training `number`
    title: str | None  # of the progress; None: no progress is shown
    device: str = "auto"
    eager: bool = False
    log: Log = no_log
    callbacks: Sequence[Callback] = ()
    losses: tuple[str, ...] = ()  # the methods to weigh if none is named; `fresh_model` then takes method=NAME
    chosen: Chosen | None = None  # by an earlier training: nothing is validated, and every stage keeps its last epoch
    remaining_wrong: float = 0.0  # share of the bag labels that is assumed to be wrong, after corrections
    before: Mapping[str, Any] = field(default_factory=dict)  # result.json's entry of a training with other labels

    def fit(
        self,
        model: Model,
        folder: Path | None,
        title: str | None,
        bags: tuple[Bags, Bags | None] | None = None,
        settings: Settings | None = None,
        objective: Objective | None = None,
        **options: Any,
    ) -> Fitted:
        """One training: on the run's bags and by its plan, unless others are given."""
        train, val = bags or (self.train, self.val)
        settings, objective = settings or self.plan.training, objective or BagLoss()
        objective.remaining_wrong = self.remaining_wrong
        if self.chosen is not None:
            assert folder is not None
            stage = "" if folder == self.folder else folder.name
            val, settings = None, replace(settings, epochs=self.chosen.epochs[stage])
        return fit(
            model,
            train,
            val,
            settings,
            device=self.device,
            folder=folder,
            title=title,
            eager=self.eager,
            callbacks=self.callbacks,
            objective=objective,
            **options,
        )

    @property
    def phase(self) -> str:
        """What tells this training apart from others in the same run: REFIT, ROBUST, or nothing for the first."""
        return REFIT if self.chosen is not None else ROBUST if self.before else ""

    @property
    def validation_labels(self) -> int:
        """How many validation bags have a label: not all of them, if wrong labels have been left out."""
        return int(self.val.bag_labels.known.sum())

    def seed_of(self, number: int) -> int:
        """The seed of training `number` in this run."""
        return self.plan.training.seed + SEED_STEP * number

    def compute_once(self, name: str, module: nn.Module, compute: Callable[[], None]) -> None:
        """Call `compute`, which fills the module; if this run has done so before, its file is read instead."""
        path = self.folder / STAGES / name / WEIGHTS

        def compute_or_read() -> Weights:
            if not path.exists():
                compute()
                path.parent.mkdir(parents=True, exist_ok=True)
                write_weights(path, module.state_dict())
            return read_weights(path, REMOVE_FILE)[0]

        weights = from_first(compute_or_read)
        check_weights(weights, module.state_dict(), path, REMOVE_FILE)
        module.load_state_dict(weights)

    def stage(self, name: str, trained: nn.Module, train: Callable[[Path, str | None], Fitted]) -> Fitted:
        """Call `train` with a folder and a title to train `trained`, a model or a part of one; a stage that is
        finished is read from its folder instead."""
        folder = self.folder / STAGES / name
        if not from_first(lambda: (folder / OUTCOME).exists() and (folder / WEIGHTS).exists()):
            shown = f"{self.phase}/{name}" if self.phase else name  # a further training has the same stages
            for callback in self.callbacks:
                callback.on_stage_start(shown)
            fitted = train(folder, None if self.title is None else f"{self.title}, stage {name}")
            from_first(lambda: _write_stage(folder, trained, fitted))
            for callback in self.callbacks:
                callback.on_stage_end(shown, fitted)
        fitted, weights = from_first(lambda: _read_stage(folder))
        trained.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]  # torch's stub lacks it
        check_weights(weights, trained.state_dict(), folder / WEIGHTS, REMOVE_FILE)
        trained.load_state_dict(weights)
        loss = "validation loss" if fitted.loss_name == "val_loss" else "training loss"
        kept = f"kept epoch {fitted.best_epoch + 1} of {fitted.epochs}"
        self.log(f"stage {name}: {kept}, {loss} {fitted.best_loss:.4f}")
        return fitted


def _write_stage(folder: Path, trained: nn.Module, fitted: Fitted) -> None:
    write_weights(folder / WEIGHTS, trained.state_dict())
    write_json(folder / OUTCOME, fitted.outcome)


def _read_stage(folder: Path) -> tuple[Fitted, Weights]:
    (folder / CHECKPOINT).unlink(missing_ok=True)
    fitted = Fitted.from_outcome(read_record(Outcome, folder / OUTCOME, REMOVE_FILE))
    fitted.history = [dict(record) for record in read_records(Epoch, folder / METRICS, REMOVE_FOLDER)]
    if fitted.best_epoch >= fitted.epochs:
        found = f"best epoch {fitted.best_epoch}, but {fitted.epochs} epochs in {METRICS}"
        raise InputError(f"{folder} is damaged ({found}): {REMOVE_FOLDER}")
    weights, _ = read_weights(folder / WEIGHTS, REMOVE_FILE)
    return fitted, weights


def train_once(run: Run) -> Trained:
    """A recipe of one training, in the run folder itself. For callbacks, a further training is a stage."""
    model, notified = run.fresh_model(), run.callbacks if run.phase else ()
    for callback in notified:
        callback.on_stage_start(run.phase)
    fitted = run.fit(model, run.folder, run.title)
    for callback in notified:
        callback.on_stage_end(run.phase, fitted)
    return Trained(model, fitted)


def temporary_files(folder: Path) -> list[Path]:
    """Files that a run folder holds only until the run is finished: its checkpoint, and the weights of its stages."""
    places = (folder, folder / ROBUST, folder / REFIT)
    return [file for place in places for name in (CHECKPOINT, f"{STAGES}/*/*.safetensors") for file in place.glob(name)]
