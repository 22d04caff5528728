"""census of images on a GPU: contrastive pretraining without labels, a head on its features, teachers and student that
start from both. For images of an unknown kind, the bags first choose how views may differ."""

from __future__ import annotations

from collections.abc import Sequence
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
from .parts import StageList, losses_of, named
from .settings import HEAD_EPOCHS, CensusSettings, Share, searches_views
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
    listed = StageList(task, plan)
    additions = additions_for(plan, task.shape[-1]) if searches_views(plan) else ()
    if searches_views(plan):
        search_views(listed, additions)
    longest = MIXED_EPOCHS if MIX in additions else 1
    settings = replace(own.pretrain, epochs=longest * own.pretrain.epochs)
    listed.add(Stage("pretrain", settings, start=_first_network, train=pretrain, once=True))
    if own.head is None:
        listed.find_share(tiny.trials)
        return listed.student(listed.teachers(_from_network))
    listed.find_share(_heads)
    listed.add(*_heads(task, plan))
    return listed.student(listed.teachers(_from_head))


def _heads(task: TaskInfo, plan: Plan) -> list[Stage]:
    """A head of each loss on the features of the pretrained network."""
    return [
        Stage(named("head", loss), plan.own.head, start=partial(pretrained, method=loss), train=train_head)
        for loss in losses_of(task)
    ]


def _first_network(run: Run) -> Model:
    return run.fresh_model(method=losses_of(run.task)[0])


def _from_head(run: Run, number: int, method: str | None) -> Model:
    return copy_of(run, named("head", method), method)


def _from_network(run: Run, number: int, method: str | None) -> Model:
    return pretrained(run, method)


# ---------------------------------------------------------------------- the views


def search_views(listed: StageList, additions: Sequence[str]) -> None:
    """A short pretraining and a head on it for each addition to the views that may be kept, and the choice."""
    own = listed.plan.own
    brief = replace(own.pretrain, epochs=own.search_epochs)
    trials: list[Stage] = []
    heads: tuple[str, ...] = ()
    for addition in (None, *additions):
        name = f"views-{addition or 'crops'}"
        train = partial(_pretrain_with, heads=heads, addition=addition)
        head = Stage(f"{name}-head", own.head, start=partial(copy_of, stage=name), train=train_head)
        trials += [Stage(name, brief, start=Run.fresh_model, train=train), head]
        heads = (*heads, head.name)
    listed.choose("views", partial(_choose_views, heads=heads), trials, once=True)


def _losses(run: Run, heads: tuple[str, ...]) -> list[tuple[str | None, float]]:
    """The validation loss with each addition that was tried, and before that without any."""
    additions = [None, *(name.removeprefix("views-").removesuffix("-head") for name in heads[1:])]
    return [(addition, run.loss(name)) for addition, name in zip(additions, heads, strict=False)]


def _pretrain_with(run: Run, model: Model, heads: tuple[str, ...], addition: str | None) -> Fitted:
    chosen = choose_views(_losses(run, heads))[0]
    own = with_views(run.plan, candidate(chosen, addition)).own
    return contrast(run, model, run.train, replace(own.pretrain, epochs=run.settings.epochs), own)


def _choose_views(run: Run, heads: tuple[str, ...]) -> dict[str, Any]:
    chosen, tried = choose_views(_losses(run, heads))
    bags = run.validation_labels
    losses = ", ".join(f"{describe(views)} {loss:.3f}" for views, loss in tried.items())
    line = f"{describe(chosen)} (loss of {bags} validation bags after a short pretraining: {losses})"
    about = {"chosen": chosen, "tried": [{"views": views, "val_loss": loss} for views, loss in tried.items()]}
    return {"views": about | {"validation_bags": bags}, "lines": {"views": line}}
