"""Run: what a recipe works with. A finished stage of a recipe is never trained again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..data.bags import Bags
from ..errors import InputError
from ..files import write_json
from ..inference.weights import Weights, check_weights, read_weights, write_weights
from ..log import Log, no_log
from ..model import Model
from ..parsing import read_record, read_records
from ..records import Epoch, Outcome
from ..training.callbacks import Callback
from ..training.distributed import from_first
from ..training.loop import fit
from ..training.objectives import BagLoss
from ..training.run_files import CHECKPOINT, METRICS
from ..training.settings import Settings
from ..training.state import Fitted
from .losses import choose_wrong_share
from .plan import Plan

SEED_STEP = 1_000_003  # between the seeds of one run's trainings; users do not choose seeds this far apart
STAGES, OUTCOME, WEIGHTS = "stages", "outcome.json", "weights.safetensors"
ROBUST = "robust"  # a training that assumes wrong labels
REFIT = "refit"  # the folder of a second training, on all bags
AGAIN = "remove it and run again, which trains this stage again"
ALL_AGAIN = "remove the folder of this stage and run again"


@dataclass(frozen=True)
class Trained:
    """The result of a recipe: a model, and how it was trained."""

    model: Model
    fitted: Fitted  # the training of this model
    stages: dict[str, Fitted] = field(default_factory=dict)  # every stage, if the recipe has several
    about: dict[str, Any] = field(default_factory=dict)  # the recipe's own entry in result.json

    def summary(self) -> dict[str, Any]:
        """Best epoch and epochs of the model; seconds of all stages."""
        trainings = list(self.stages.values()) or [self.fitted]
        summary: dict[str, Any] = {
            "best_epoch": self.fitted.best_epoch,
            "epochs": self.fitted.epochs,
            "seconds": round(sum(fitted.seconds for fitted in trainings), 3),
            "capture_seconds": round(sum(fitted.capture_seconds for fitted in trainings), 3),
        }
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

    def fit(
        self,
        model: Model,
        folder: Path | None,
        title: str | None,
        bags: tuple[Bags, Bags | None] | None = None,
        settings: Settings | None = None,
        **options: Any,
    ) -> Fitted:
        """One training: on the run's bags and by its plan, unless others are given."""
        train, val = bags or (self.train, self.val)
        settings = settings or self.plan.training
        if self.chosen is not None:
            assert folder is not None
            stage = "" if folder == self.folder else folder.name
            val, settings = None, replace(settings, epochs=self.chosen.epochs[stage])
        options.setdefault("objective", BagLoss(self.assumed_wrong))
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
            **options,
        )

    @property
    def assumed_wrong(self) -> float:
        """The share of wrong bag labels that losses assume: 0 as long as none was chosen."""
        return self.plan.assumed_wrong or 0.0

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
            return read_weights(path, AGAIN)[0]

        weights = from_first(compute_or_read)
        check_weights(weights, module.state_dict(), path, AGAIN)
        module.load_state_dict(weights)

    def stage(self, name: str, trained: nn.Module, train: Callable[[Path, str | None], Fitted]) -> Fitted:
        """Call `train` with a folder and a title to train `trained`, a model or a part of one; a stage that is
        finished is read from its folder instead."""
        folder = self.folder / STAGES / name
        if not from_first(lambda: (folder / OUTCOME).exists() and (folder / WEIGHTS).exists()):
            for callback in self.callbacks:
                callback.on_stage_start(name)
            fitted = train(folder, None if self.title is None else f"{self.title}, stage {name}")
            from_first(lambda: _write_stage(folder, trained, fitted))
            for callback in self.callbacks:
                callback.on_stage_end(name, fitted)
        fitted, weights = from_first(lambda: _read_stage(folder))
        trained.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]  # torch's stub lacks it
        check_weights(weights, trained.state_dict(), folder / WEIGHTS, AGAIN)
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
    fitted = Fitted.from_outcome(read_record(Outcome, folder / OUTCOME, AGAIN))
    fitted.history = [dict(record) for record in read_records(Epoch, folder / METRICS, ALL_AGAIN)]
    if fitted.best_epoch >= fitted.epochs:
        found = f"best epoch {fitted.best_epoch}, but {fitted.epochs} epochs in {METRICS}"
        raise InputError(f"{folder} is damaged ({found}): {ALL_AGAIN}")
    weights, _ = read_weights(folder / WEIGHTS, AGAIN)
    return fitted, weights


def train_once(run: Run) -> Trained:
    """A recipe of one training, in the run folder itself; and of another one if some labels seem to be wrong."""
    if run.chosen is not None and ROBUST in run.chosen.epochs:
        return _train_robust(run, {}, run.chosen.about)
    model = run.fresh_model()
    first = Trained(model, run.fit(model, run.folder, run.title))
    again, about = choose_assumed_wrong(run, [model])
    if again.assumed_wrong == run.assumed_wrong:
        return replace(first, about=about)
    return _train_robust(again, {"first": first.fitted}, about)


def _train_robust(run: Run, stages: dict[str, Fitted], about: dict[str, Any]) -> Trained:
    model = run.fresh_model()
    fitted = run.stage(ROBUST, model, partial(run.fit, model))
    return Trained(model, fitted, stages | {ROBUST: fitted}, about)


def choose_assumed_wrong(run: Run, models: Collection[Model]) -> tuple[Run, dict[str, Any]]:
    """The run with the share of wrong labels that the validation bags choose, given the predictions of these models,
    and the recipe's entry in result.json about it. A share that is set, or that was chosen before, stays."""
    if run.plan.assumed_wrong is not None or any(model.head.sees_instance_labels for model in models):
        return run, {}
    if run.chosen is not None:
        about = run.chosen.about["assumed_wrong"]
        return replace(run, plan=replace(run.plan, assumed_wrong=about["chosen"])), {"assumed_wrong": about}
    share, tried = choose_wrong_share(models, run.train, run.val, run.device)
    about = {"chosen": share, "log_likelihoods": tried, "validation_bags": len(run.val)}
    if share:
        run.log(f"{len(run.val)} validation bags: about {share:.0%} of the labels seem wrong; losses assume so")
    return replace(run, plan=replace(run.plan, assumed_wrong=share)), {"assumed_wrong": about}


def temporary_files(folder: Path) -> list[Path]:
    """Files that a run folder holds only until the run is finished: its checkpoint, and the weights of its stages."""
    places = (folder, folder / REFIT)
    return [file for place in places for name in (CHECKPOINT, f"{STAGES}/*/*.safetensors") for file in place.glob(name)]
