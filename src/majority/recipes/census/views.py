"""Views: how two versions of one image may differ in pretraining and teachers. For images of an unknown kind, the bags
choose: each addition below is kept if a head on features that were pretrained with it has a lower validation loss.

A mirrored digit is another character, and a mirrored cell is still the same cell. Features that ignore what tells the
classes apart explain the bag labels worse, so no instance label and no name of the images is needed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ...training.augment import AugmentStep
from ..plan import Plan, TaskInfo
from ..stages import Run

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


def views_of(task: TaskInfo) -> tuple[str, ...]:
    """The additions for images of a known kind: those whose augmentations all keep its classes.

    >>> views_of(TaskInfo(label_preserving=("flip", "rotate90", "colour", "hue")))
    ('colour', 'turn')
    """
    found = {
        name for name, steps in (ORIENTATIONS | COLOURS).items() if _names(steps) <= {*task.allowed(*_names(steps))}
    }
    found -= {"flip"} if "turn" in found else set()
    return tuple(name for name in ADDITIONS if name in found or (name == MIX and task.mixed_views))


def plan_of(run: Run) -> Plan:
    """The plan of a run, with the views that its bags have chosen, if they have."""
    return with_views(run.plan, run.chosen("views")["views"]["chosen"]) if "views" in run.results else run.plan


def with_views(plan: Plan, additions: Collection[str]) -> Plan:
    """The plan of census with these additions in pretraining, teachers and student."""
    turns = ORIENTATIONS.get("turn" if "turn" in additions else "flip" if "flip" in additions else "", ())
    colours = [step for name in COLOURS if name in additions for step in COLOURS[name]]

    def extended(augment: tuple[Any, ...]) -> tuple[Any, ...]:
        end, given = augment.index("cutout") if "cutout" in augment else len(augment), _names(augment)
        before, after = ([step for step in steps if not _names([step]) & given] for steps in (turns, colours))
        return (*before, *augment[:end], *after, *augment[end:])

    own, training = plan.own, plan.training
    pretrain = replace(own.pretrain, augment=extended(own.pretrain.augment))
    if MIX in additions:
        pretrain = replace(pretrain, epochs=MIXED_EPOCHS * pretrain.epochs)
        own = replace(own, mixed_views=MIXED_SHARE)
    training = replace(training, augment=extended(training.augment))
    return replace(plan, training=training, own=replace(own, pretrain=pretrain))


def _names(augment: Iterable[Any]) -> set[str]:
    return {step if isinstance(step, str) else step[0] for step in augment}


def with_addition(chosen: Collection[str], addition: str) -> tuple[str, ...]:
    """
    >>> with_addition(("colour", "flip"), "turn"), with_addition((), CROPS)
    (('colour', 'turn'), ())
    """
    kept = tuple(name for name in chosen if addition != "turn" or name != "flip")  # a turn includes the flip
    return kept if addition == CROPS else (*kept, addition)


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
