"""census of images on a GPU: contrastive pretraining without labels, a head on its features, teachers and student that
start from both.

Views are two versions of one image. For images of an unknown kind, the bags choose how these may differ: each addition
below is kept if a head on features that were pretrained with it has a lower validation loss. A mirrored digit is
another character, and a mirrored cell is still the same cell. Features that ignore what tells the classes apart explain
the bag labels worse, so no instance label and no name of the images is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any

import torch
from annotated_types import Ge, Le

from ...data.bags import Bags
from ...nn.model import Model
from ...training.augment import Augment, AugmentStep
from ...training.callbacks import Fitted
from ...training.objectives import Contrastive
from ...training.settings import Epochs, Settings
from ..plan import Plan, TaskInfo
from ..single import resnet_for
from ..stages import Run, Stage
from .background_share import share_search
from .parts import (
    HEAD_EPOCHS,
    CensusSettings,
    Share,
    chained,
    copy_of,
    fresh,
    learned_bags,
    numbered,
    of_each_loss,
    student,
    teachers,
    train_head,
)

SEARCH_EPOCHS = 60  # of pretraining, for each choice of views
ORIENTATIONS: dict[str, tuple[AugmentStep, ...]] = {"flip": ("flip",), "turn": ("flip", "rotate90")}
COLOURS: dict[str, tuple[AugmentStep, ...]] = {
    "colour": (("colour", {"share": 0.8}), ("hue", {"share": 0.8})),
    "grey": ("grey",),
}
CROPS = "crops"  # views without any addition
MIX = "mix"  # views are mixed with those of other instances
ADDITIONS = ("colour", "grey", "flip", "turn", MIX)  # in the order in which they are tried
MIXED_SHARE, MIXED_EPOCHS = 0.5, 2  # largest share of another instance; pretraining is so many times as long
MIXED_TOLERANCE = 0.005  # mixing is kept if its loss is at most so much higher: it gains most in a long pretraining


@dataclass(frozen=True)
class GpuImageSettings(CensusSettings):
    pretrain: Settings = field(default_factory=Settings)  # contrastive pretraining
    head: Settings = Settings(epochs=HEAD_EPOCHS, batch_bags=64, warmup_epochs=5)  # noqa: RUF009
    search_epochs: Annotated[int, Ge(0), Le(10**6)] = 0  # of pretraining for each choice of views; 0: as planned
    mixed_views: Share = 0.0  # largest share of another instance that is mixed into the first views of pretraining
    teacher_epochs: Epochs = 20
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
    own = GpuImageSettings(pretrain=pretrain, search_epochs=SEARCH_EPOCHS if task.label_preserving is None else 0)
    plan = Plan(backbone=resnet_for(task), training=training, own=own, assumed_wrong=None)
    return plan if task.label_preserving is None else with_views(plan, views_of(task))


def _three_quarters(length: int) -> int:
    """About three quarters, as a multiple of 8 (of 4 below 24 pixels), because networks halve it several times.

    >>> [_three_quarters(length) for length in (13, 16, 24, 28, 32, 224)]
    [8, 12, 16, 24, 24, 168]
    """
    unit = 8 if length >= 24 else 4
    return unit * round(3 / 4 * length / unit)


def stages(task: TaskInfo, plan: Plan) -> list[Stage]:
    own, search, sources = plan.own, view_search(task, plan), numbered(plan, "head")
    settings = replace(own.pretrain, epochs=(MIXED_EPOCHS if search else 1) * own.pretrain.epochs)
    first = partial(fresh, method=(*task.losses, None)[0])
    pretrain = Stage("pretrain", settings, start=first, train=_pretrain, once=True)
    heads = of_each_loss(task, "head", own.head, _pretrained, train_head)
    last = [*teachers(task, plan, sources), *student(task, plan, sources)]
    if search:
        last = [replace(stage, train=partial(_train_with_views, stage.train)) for stage in last]
    return chained([*search, pretrain, *share_search(task, heads), *heads, *last])


def _pretrain(run: Run, model: Model) -> Fitted:
    return _contrast(run, model, learned_bags(run), plan_of(run).own)


def _contrast(run: Run, model: Model, bags: Bags, own: GpuImageSettings) -> Fitted:
    """Train the network to recognise two views of an instance among all others; no label is used."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(run.plan.training.seed)
        objective = Contrastive(model.n_features, mixed_views=own.mixed_views)
    settings = own.pretrain
    if not (model.spec.backbone or "").startswith(("cnn", "resnet")):  # others may take images of one size only
        steps = [
            (name, {key: value for key, value in given.items() if key != "side"})
            for name, given in Augment(settings.augment).plan
        ]
        settings = replace(settings, augment=tuple(steps))
    return run.fit(model, (bags.one_per_instance(), None), settings, objective)


def _pretrained(run: Run, method: str | None = None) -> Model:
    """The network of `pretrain`, with a fresh head."""
    model = fresh(run, method=method)
    model.backbone = deepcopy(run.network("pretrain").backbone)
    return model


def _train_with_views(train: Callable[[Run, Model], Fitted | None], run: Run, model: Model) -> Fitted | None:
    settings = replace(run.settings, augment=plan_of(run).training.augment)
    return train(replace(run, stage=replace(run.stage, settings=settings)), model)


# ---------------------------------------------------------------------- views


def views_of(task: TaskInfo) -> list[str]:
    """The additions for images of a known kind: those whose augmentations all keep its classes.

    >>> views_of(TaskInfo(label_preserving=("flip", "rotate90", "colour", "hue")))
    ['colour', 'turn']
    """
    steps = {name: _names(of_name) for name, of_name in (COLOURS | ORIENTATIONS).items()}
    found = [name for name, names in steps.items() if len(task.allowed(*names)) == len(names)]
    if "turn" in found:  # which includes the flip
        found.remove("flip")
    return [*found, MIX] if task.mixed_views else found


def plan_of(run: Run) -> Plan:
    """The plan of a run, with the views that its bags have chosen, if they have."""
    return with_views(run.plan, run.chosen("views")["views"]["chosen"]) if "views" in run.results else run.plan


def with_views(plan: Plan, additions: Collection[str]) -> Plan:
    """The plan of census with these additions in pretraining, teachers and student."""
    turns = next((ORIENTATIONS[name] for name in ("turn", "flip") if name in additions), ())
    colours = tuple(step for name in COLOURS if name in additions for step in COLOURS[name])

    def extended(settings: Settings) -> Settings:
        augment = settings.augment
        end, given = augment.index("cutout") if "cutout" in augment else len(augment), _names(augment)
        before, after = ([step for step in steps if not _names([step]) & given] for steps in (turns, colours))
        return replace(settings, augment=(*before, *augment[:end], *after, *augment[end:]))

    pretrain = extended(plan.own.pretrain)
    own = replace(plan.own, pretrain=pretrain)
    if MIX in additions:
        longer = replace(pretrain, epochs=MIXED_EPOCHS * pretrain.epochs)
        own = replace(own, pretrain=longer, mixed_views=MIXED_SHARE)
    return replace(plan, training=extended(plan.training), own=own)


def _names(augment: Iterable[Any]) -> set[str]:
    return {step if isinstance(step, str) else step[0] for step in augment}


def view_search(task: TaskInfo, plan: Plan) -> list[Stage]:
    """A short pretraining and a head on it for each addition to the views that may be kept, and the choice."""
    own = plan.own
    trials: list[Stage] = []
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
    own = with_views(run.plan, with_addition(choose_views(_losses(run))[0], addition)).own
    return _contrast(run, model, run.train, replace(own, pretrain=replace(own.pretrain, epochs=run.settings.epochs)))


def _choose_views(run: Run) -> dict[str, Any]:
    chosen, tried = choose_views(_losses(run))
    bags, names = run.validation_labels, {views: " + ".join(views) or CROPS for views in tried}
    losses = ", ".join(f"{names[views]} {loss:.3f}" for views, loss in tried.items())
    line = f"{names[chosen]} (loss of {bags} validation bags after a short pretraining: {losses})"
    of_views = [{"views": views, "val_loss": loss} for views, loss in tried.items()]
    return {"views": {"chosen": chosen, "tried": of_views, "validation_bags": bags}, "lines": {"views": line}}


def choose_views(losses: Mapping[str, float]) -> tuple[tuple[str, ...], dict[tuple[str, ...], float]]:
    """Those of the additions that lower the loss, one after the other, and all that were tried with their losses. The
    first loss is without any.

    >>> choose_views({CROPS: 1.8, "colour": 1.7, "flip": 1.6, "turn": 1.9, MIX: 1.9})[0]
    ('colour', 'flip')
    """
    chosen: tuple[str, ...] = ()
    tried: dict[tuple[str, ...], float] = {}
    for addition, loss in losses.items():
        views = with_addition(chosen, addition)
        tried[views] = loss
        if loss < tried[chosen] + (MIXED_TOLERANCE if addition == MIX else 0):
            chosen = views
    return chosen, tried


def with_addition(chosen: Collection[str], addition: str) -> tuple[str, ...]:
    """
    >>> with_addition(("colour", "flip"), "turn"), with_addition((), CROPS)
    (('colour', 'turn'), ())
    """
    kept = tuple(name for name in chosen if addition != "turn" or name != "flip")  # a turn includes the flip
    return kept if addition == CROPS else (*kept, addition)
