"""census of images on a GPU: contrastive pretraining without labels, a head on its features, teachers and student that
start from both. For images of an unknown kind, the bags first choose how views may differ."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

from annotated_types import Ge, Gt, Le

from ...nn.model import Model
from ...training.settings import Settings
from ...training.state import Fitted
from ..plan import Plan, TaskInfo
from ..single import resnet_for
from ..stages import Run, Stage
from . import tiny
from .parts import Start, find_share_by, names_of, student_of, teachers_of
from .settings import HEAD_EPOCHS, CensusSettings, Share, choices, losses_of, named, searches_views
from .trainings import contrast, copy_of, pretrain, pretrained, train_head
from .views import MIX, MIXED_EPOCHS, additions_for, candidate, choose_views, describe, views_of, with_views

SEARCH_EPOCHS = 60  # of pretraining, for each choice of views


@dataclass(frozen=True)
class GpuImageSettings(CensusSettings):
    pretrain: Settings | None = None  # contrastive pretraining; None: everything starts from random weights
    head: Settings | None = None  # training of the head alone; None: teachers start with a head of random weights
    search_epochs: Annotated[int, Ge(0), Le(10**6)] = 0  # of pretraining for each choice of views; 0: as planned
    temperature: Annotated[float, Gt(0)] = 0.2  # of the contrastive loss
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
    own = GpuImageSettings(pretrain=pretrain, head=Settings(epochs=HEAD_EPOCHS, batch_bags=64, warmup_epochs=5))
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
    own = plan.own
    if own.pretrain is None:
        return tiny.stages(task, plan)
    longest = MIXED_EPOCHS if MIX in _additions(task, plan) else 1
    settings = replace(own.pretrain, epochs=longest * own.pretrain.epochs)
    views = ("views",) if searches_views(plan) else ()
    network = Stage("pretrain", settings, views, _first_network, pretrain, once=True)
    heads = _heads(task, plan) if own.head is not None else []
    inputs = ("pretrain", *names_of(heads))
    start: Start = _from_head if heads else _from_network
    teachers = teachers_of(task, plan, start, inputs)
    starts = dict.fromkeys(names_of(teachers), start)
    shares = find_share_by(task, plan, _heads if heads else tiny.trials, ("pretrain",))
    search = search_of_views(task, plan)
    return [*search, network, *shares, *heads, *teachers, *student_of(task, plan, starts, inputs)]


def _heads(task: TaskInfo, plan: Plan) -> list[Stage]:
    """A head of each loss on the features of the pretrained network."""
    inputs = ("pretrain", *choices(task, plan))
    return [
        Stage(named("head", loss), plan.own.head, inputs, partial(pretrained, method=loss), train_head)
        for loss in losses_of(task)
    ]


def _first_network(run: Run) -> Model:
    return run.fresh_model(method=losses_of(run.task)[0])


def _from_head(run: Run, number: int, method: str | None) -> Model:
    return copy_of(run, named("head", method), method)


def _from_network(run: Run, number: int, method: str | None) -> Model:
    return pretrained(run, method)


# ---------------------------------------------------------------------- the views


def search_of_views(task: TaskInfo, plan: Plan) -> list[Stage]:
    """A short pretraining and a head on it for each addition to the views that may be kept, and the choice."""
    if not searches_views(plan):
        return []
    brief = replace(plan.own.pretrain, epochs=plan.own.search_epochs)
    trials: list[Stage] = []
    heads: tuple[str, ...] = ()
    for addition in (None, *_additions(task, plan)):
        name = f"views-{addition or 'crops'}"
        pretrain = Stage(name, brief, heads, Run.fresh_model, partial(_pretrain_with, heads=heads, addition=addition))
        head = Stage(f"{name}-head", plan.own.head, (name,), train=train_head)
        trials += [pretrain, head]
        heads = (*heads, head.name)
    return [*trials, Stage("views", inputs=heads, choose=_choose_views, once=True)]


def _additions(task: TaskInfo, plan: Plan) -> tuple[str, ...]:
    return additions_for(plan, task.shape[-1]) if searches_views(plan) else ()


def _losses(run: Run, heads: tuple[str, ...]) -> list[tuple[str | None, float]]:
    """The validation loss with each addition that was tried, and before that without any."""
    additions = [None, *(name.removeprefix("views-").removesuffix("-head") for name in heads[1:])]
    return [(addition, run.loss(name)) for addition, name in zip(additions, heads, strict=False)]


def _pretrain_with(run: Run, model: Model, heads: tuple[str, ...], addition: str | None) -> Fitted:
    chosen = choose_views(_losses(run, heads))[0]
    own = with_views(run.plan, candidate(chosen, addition)).own
    return contrast(run, model, run.train, replace(own.pretrain, epochs=run.settings.epochs), own)


def _choose_views(run: Run) -> dict[str, Any]:
    chosen, tried = choose_views(_losses(run, run.stage.inputs))
    run.log("views: " + ", ".join(f"{describe(views)} {loss:.4f}" for views, loss in tried.items()))
    bags = f"{run.validation_labels} validation bags"
    run.log(f"views with the lowest loss of {bags}: {describe(chosen)}")
    losses = ", ".join(f"{describe(views)} {loss:.3f}" for views, loss in tried.items())
    about = {"chosen": chosen, "tried": [{"views": views, "val_loss": loss} for views, loss in tried.items()]}
    line = f"{describe(chosen)} (loss of {bags} after a short pretraining: {losses})"
    return {"views": about | {"validation_bags": run.validation_labels}, "lines": {"views": line}}
