"""Views: how two versions of one image may differ in pretraining and teachers. For images of an unknown kind, the bags
choose: each addition below is kept if a head on features that were pretrained with it has a lower validation loss.

A mirrored digit is another character, and a mirrored cell is still the same cell. Features that ignore what tells the
classes apart explain the bag labels worse, so no instance label and no name of the images is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Any

from ...io.benchmarks.catalogue import SOURCES
from ...log import Log
from ...training.augment import AugmentStep
from ..label_preserving import label_preserving
from ..plan import Plan

ORIENTATIONS: dict[str, tuple[AugmentStep, ...]] = {"flip": ("flip",), "turn": ("flip", "rotate90")}
COLOURS: dict[str, tuple[AugmentStep, ...]] = {
    "colour": (("colour", {"share": 0.8}), ("hue", {"share": 0.8})),
    "grey": ("grey",),
}
MIX = "mix"  # views are mixed with those of other instances
ADDITIONS = ("colour", "grey", "flip", "turn", MIX)  # in the order in which they are tried
MIXED_SHARE, MIXED_EPOCHS = 0.5, 2  # largest share of another instance; pretraining is so many times as long
MIXED_TOLERANCE = 0.005  # mixing is kept if its loss is at most so much higher: it gains most in a long pretraining


def views_of(source: str) -> tuple[str, ...]:
    """The additions for images of a known source: those whose augmentations all keep its classes.

    >>> views_of("cifar10"), views_of("svhn"), views_of("pathmnist")
    (('colour', 'grey', 'flip', 'mix'), ('colour', 'grey'), ('colour', 'turn'))
    """
    allowed, steps = {*label_preserving(source)}, ORIENTATIONS | COLOURS
    found = {name for name in steps if _names(steps[name]) <= allowed} | (
        {MIX} if SOURCES[source].mixed_views else set()
    )
    return tuple(name for name in ADDITIONS if name in found and not (name == "flip" and "turn" in found))


def with_views(plan: Plan, additions: Collection[str]) -> Plan:
    """The plan of census with these additions in pretraining, teachers and student."""
    turns = ORIENTATIONS["turn" if "turn" in additions else "flip"] if {"turn", "flip"} & {*additions} else ()
    colours = tuple(step for name in COLOURS if name in additions for step in COLOURS[name])

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


def additions_for(plan: Plan, channels: int) -> tuple[str, ...]:
    """Those that can be tried: not what the plan has already. Images of other than three channels have no colour to
    remove."""
    given = _names(plan.own.pretrain.augment)
    steps = ORIENTATIONS | COLOURS
    has = {name for name in steps if _names(steps[name]) <= given} | ({MIX} if plan.own.mixed_views else set())
    return tuple(name for name in ADDITIONS if name not in has and (channels == 3 or name != "grey"))


def _names(augment: Iterable[Any]) -> set[str]:
    return {step if isinstance(step, str) else step[0] for step in augment}


def search_views(
    additions: Collection[str], loss_of: Callable[[tuple[str, ...]], float], log: Log
) -> tuple[tuple[str, ...], list[Any]]:
    """Those of the additions that lower the loss, one after the other, and all that were tried with their losses.

    >>> losses = {(): 1.8, ("colour",): 1.7, ("colour", "flip"): 1.6}
    >>> search_views(["colour", "flip", "turn", "mix"], lambda additions: losses.get(additions, 1.9), print)[0]
    views: crops 1.8000, colour 1.7000, colour + flip 1.6000, colour + turn 1.9000, colour + flip + mix 1.9000
    ('colour', 'flip')
    """
    chosen: tuple[str, ...] = ()
    tried = {chosen: loss_of(chosen)}
    for addition in additions:
        kept = tuple(name for name in chosen if addition != "turn" or name != "flip")  # a turn includes the flip
        candidate = (*kept, addition)
        tried[candidate] = loss_of(candidate)
        if tried[candidate] < tried[chosen] + (MIXED_TOLERANCE if addition == MIX else 0):
            chosen = candidate
    log("views: " + ", ".join(f"{describe(views)} {loss:.4f}" for views, loss in tried.items()))
    return chosen, [{"views": list(views), "val_loss": loss} for views, loss in tried.items()]


def describe(additions: Collection[str]) -> str:
    """
    >>> describe(()), describe(("colour", "flip"))
    ('crops', 'colour + flip')
    """
    return " + ".join(additions) or "crops"
