"""Stages: what a recipe is a list of, and what their functions get."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from ..data.bags import Bags
from ..log import Log, no_log
from ..nn.model import Model
from ..training.callbacks import Callback, Fitted
from ..training.loop import fit
from ..training.objectives import BagLoss, Objective
from ..training.settings import Settings
from .plan import Plan, TaskInfo

T = TypeVar("T")

SEED_STEP = 1_000_003  # between the seeds of one run's trainings; users do not choose seeds this far apart


@dataclass(frozen=True)
class Result:
    """What a stage leaves for later ones."""

    model: Any = None  # a Model, of a stage that has one and that is still needed
    fitted: Any = None  # Fitted, of a stage that was trained
    about: Mapping[str, Any] = field(default_factory=dict)  # what a stage has chosen
    seconds: float = 0.0  # that this choice has taken here


def kept_result(results: Mapping[str, Result], name: str) -> Result:
    """Of this stage, or of the one whose network it has chosen."""
    while "kept" in results[name].about:
        name = results[name].about["kept"]
    return results[name]


def start_from_inputs(run: Run) -> Model:
    """A copy of the network of the first input; without inputs, one of random weights."""
    return deepcopy(run.network(run.stage.inputs[0])) if run.stage.inputs else run.fresh_model()


def train_on_bags(run: Run, model: Model) -> Fitted:
    """With the method's own loss."""
    return run.fit(model)


@dataclass(frozen=True)
class Stage:
    """One step of a recipe: it trains a network, or chooses something by what others have trained."""

    name: str
    settings: Settings | None = None  # of its training; its epochs are those of the plan, at most
    inputs: tuple[str, ...] = ()  # the stages whose results it uses
    start: Callable[[Run], Model] = start_from_inputs  # the network before it is trained
    train: Callable[[Run, Model], Fitted | None] = train_on_bags
    choose: Callable[[Run], dict[str, Any]] | None = None  # in place of a network: entries of result.json. Of these,
    # `lines` (title -> text) and `warnings` are shown on the report page, and `kept` names the stage that is chosen
    once: bool = False  # a further training with other labels takes over its result
    again: bool = False  # what it chooses is chosen anew for a training on all bags, which has no validation bags

    @property
    def epochs(self) -> int:
        return 0 if self.settings is None else self.settings.epochs


@dataclass(frozen=True)
class Run:
    """What the functions of a stage get. Its public name is `majority.recipes.Run`."""

    train: Bags
    val: Bags
    plan: Plan
    build: Callable[..., Model]  # (seed, method): see `fresh_model`
    task: TaskInfo = TaskInfo()  # noqa: RUF009  (it is immutable)
    folder: Path | None = None  # of the stage; None: nothing is written
    title: str | None = None  # of the progress; None: no progress is shown
    device: str = "auto"
    eager: bool = False
    log: Log = no_log
    callbacks: Sequence[Callback] = ()
    phase: str = ""  # what tells a further training apart from the first: ROBUST, REFIT
    epochs: Mapping[str, int] | None = None  # of each stage, chosen by an earlier training: nothing is validated
    remaining_wrong: float = 0.0  # share of the bag labels that is assumed to be wrong, after corrections
    stage: Stage = Stage("")
    results: Mapping[str, Result] = field(default_factory=dict)  # of earlier stages
    shared: dict[str, Any] = field(default_factory=dict)  # what several stages compute only once

    def fresh_model(self, number: int = 0, method: str | None = None) -> Model:
        """A network of random weights, by the seed of training `number`; of another method if one is named."""
        return self.build(self.plan.training.seed + SEED_STEP * number, method)

    def fit(
        self,
        model: Model,
        bags: tuple[Bags, Bags | None] | None = None,
        settings: Settings | None = None,
        objective: Objective | None = None,
        **options: Any,
    ) -> Fitted:
        """Train as the stage's settings and the bags of the run say, unless others are given."""
        train, val = bags or (self.train, self.val)
        settings, objective = settings or self.settings, objective or BagLoss()
        objective.remaining_wrong = self.remaining_wrong
        if self.epochs is not None:
            val, settings = None, replace(settings, epochs=self.epochs[self.stage.name])
        given = {name: getattr(self, name) for name in ("device", "folder", "title", "eager", "callbacks")}
        return fit(model, train, val, settings, objective=objective, **given, **options)

    def once(self, name: str, compute: Callable[[], T]) -> T:
        """What `compute` returns; it is called by the first stage that needs it."""
        if name not in self.shared:
            self.shared[name] = compute()
        found: T = self.shared[name]
        return found

    @property
    def settings(self) -> Settings:
        return self.stage.settings or self.plan.training

    def network(self, stage: str) -> Model:
        """What an earlier stage has trained, or chosen."""
        model: Model = kept_result(self.results, stage).model
        return model

    def loss(self, stage: str) -> float:
        """The lowest validation loss of that network; of its training, if it keeps the last epoch."""
        loss: float = kept_result(self.results, stage).fitted.best_loss
        return loss

    def chosen(self, stage: str) -> Mapping[str, Any]:
        """What an earlier stage has chosen."""
        return self.results[stage].about

    @property
    def judges(self) -> list[Bags]:
        """The labelled validation bags, if there are such beside the training bags."""
        return [] if self.epochs is not None or self.val is self.train else [self.val.with_labels()]

    @property
    def validation_labels(self) -> int:
        """How many validation bags have a label: not all of them, if wrong labels have been left out."""
        return int(self.val.bag_labels.known.sum())
