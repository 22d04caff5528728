"""census of images on a GPU: contrastive pretraining without labels, a head on its features, teachers and student that
start from both. For images of an unknown kind, the bags first choose how views may differ."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any

from annotated_types import Ge, Le

from ...nn.model import Model
from ...training.callbacks import Fitted
from ...training.settings import Settings
from ..plan import Plan, TaskInfo
from ..single import resnet_for
from ..stages import Run, Stage
from .background_share import share_search
from .parts import chained, numbered, of_each_loss, student, teachers
from .settings import HEAD_EPOCHS, CensusSettings, Share
from .trainings import contrast, copy_of, pretrain, pretrained, train_head
from .views import ADDITIONS, CROPS, MIXED_EPOCHS, choose_views, views_of, with_addition, with_views

SEARCH_EPOCHS = 60  # of pretraining, for each choice of views


@dataclass(frozen=True)
class GpuImageSettings(CensusSettings):
    pretrain: Settings = field(default_factory=Settings)  # contrastive pretraining
    head: Settings = Settings(epochs=HEAD_EPOCHS, batch_bags=64, warmup_epochs=5)  # noqa: RUF009
    search_epochs: Annotated[int, Ge(0), Le(10**6)] = 0  # of pretraining for each choice of views; 0: as planned
    mixed_views: Share = 0.0  # largest share of another instance that is mixed into the first views of pretraining
    teacher_epochs: Annotated[int, Ge(1), Le(10**6)] = 20
    validation_instances: bool = True


def plan(task: TaskInfo) -> Plan:
    height, width = map(_three_quarters, task.shape[:2])
    pretrain = Settings(
        epochs=200,
        batch_bags=512,
        drop_last=True,
        optimizer="muon",
        learning_rate=6e-3,
        weight_decay=1e-3,
        warmup_epochs=10,
        augment=(("resized-crop", {"side": height if height == width else (height, width)}),),
        precision="bf16",
        compile=True,
    )
    training = Settings(
        epochs=80,
        batch_bags=16,
        optimizer="muon",
        learning_rate=3e-3,
        weight_decay=5e-2,
        augment=("crop", "cutout"),
        precision="bf16",
    )
    own = GpuImageSettings(pretrain=pretrain)
    plan = Plan(backbone=resnet_for(task), training=training, own=own, assumed_wrong=None)
    if task.label_preserving is not None:
        return with_views(plan, views_of(task))
    return replace(plan, own=replace(own, search_epochs=SEARCH_EPOCHS))


def _three_quarters(length: int) -> int:
    """About three quarters, as a multiple of 8 (of 4 below 24 pixels), because networks halve it several times.

    >>> [_three_quarters(length) for length in (13, 16, 24, 28, 32, 224)]
    [8, 12, 16, 24, 24, 168]
    """
    unit = 8 if length >= 24 else 4
    return unit * round(3 / 4 * length / unit)


def stages(task: TaskInfo, plan: Plan) -> list[Stage]:
    own, search = plan.own, view_search(task, plan)
    longest = MIXED_EPOCHS if search else 1
    settings = replace(own.pretrain, epochs=longest * own.pretrain.epochs)
    heads, sources = of_each_loss(task, "head", own.head, pretrained, train_head), numbered(plan, "head")
    return chained([
        *search,
        Stage("pretrain", settings, start=_first_network, train=pretrain, once=True),
        *share_search(task, heads),
        *heads,
        *teachers(task, plan, sources),
        *student(task, plan, sources),
    ])  # fmt: skip


def _first_network(run: Run) -> Model:
    return run.fresh_model(method=(*run.task.losses, None)[0])


# ---------------------------------------------------------------------- the views


def view_search(task: TaskInfo, plan: Plan) -> list[Stage]:
    """A short pretraining and a head on it for each addition to the views that may be kept, and the choice."""
    own, trials = plan.own, list[Stage]()
    if not own.search_epochs:
        return trials
    brief = replace(own.pretrain, epochs=own.search_epochs)
    for addition in (CROPS, *ADDITIONS):
        if addition != "grey" or task.shape[-1] == 3:  # other images have no colour to remove
            name = f"views-{addition}"
            train = partial(_pretrain_with, addition=addition)
            trials.append(Stage(name, brief, start=Run.fresh_model, train=train))
            trials.append(Stage(f"{name}-head", own.head, start=partial(copy_of, stage=name), train=train_head))
    return [*trials, Stage("views", inputs=tuple(trial.name for trial in trials), choose=_choose_views, once=True)]


def _losses(run: Run) -> dict[str, float]:
    """The validation loss with each addition that was tried so far, and before that without any."""
    heads = [name for name in run.results if name.startswith("views-") and name.endswith("-head")]
    return {name.removeprefix("views-").removesuffix("-head"): run.loss(name) for name in heads}


def _pretrain_with(run: Run, model: Model, addition: str) -> Fitted:
    chosen = choose_views(_losses(run))[0]
    own = with_views(run.plan, with_addition(chosen, addition)).own
    settings = replace(own.pretrain, epochs=run.settings.epochs)
    return contrast(run, model, run.train, settings, own.mixed_views)


def _choose_views(run: Run) -> dict[str, Any]:
    chosen, tried = choose_views(_losses(run))
    bags = run.validation_labels
    losses = ", ".join(f"{' + '.join(views) or CROPS} {loss:.3f}" for views, loss in tried.items())
    shown = " + ".join(chosen) or CROPS
    line = f"{shown} (loss of {bags} validation bags after a short pretraining: {losses})"
    about = {"chosen": chosen, "tried": [{"views": views, "val_loss": loss} for views, loss in tried.items()]}
    return {"views": about | {"validation_bags": bags}, "lines": {"views": line}}
