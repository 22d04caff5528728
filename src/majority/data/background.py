"""A background class does not vote: instances may belong to it, but no bag is labelled with it and no count has it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..errors import InputError
from .labels import BagLabels


@dataclass(frozen=True)
class Background:
    """The class that does not vote and, if it is known, its share of all instances."""

    index: int  # among the classes
    share: float | None = None  # prior; None: not known
    phantom: float = 0.25  # votes added to each bag, as a share of its size, when proportions of votes are compared

    def __post_init__(self) -> None:
        if self.share is not None and not 0 < self.share < 1:
            raise InputError(
                f"background share {self.share}: give the share of all instances that do not vote, between 0 and 1"
            )
        if not (self.phantom >= 0 and math.isfinite(self.phantom)):
            raise InputError(f"background phantom {self.phantom}: it must be 0 or above")


def add_background(
    name: str, classes: tuple[str, ...], labels: BagLabels, describe: Callable[[int], str]
) -> tuple[tuple[str, ...], int]:
    """Return the classes, with the background appended if it is not among them, and its number.

    No bag may be labelled with it.
    """
    if not name.strip():
        raise InputError("the background has no name: give one, such as normal")
    if name not in classes:
        classes = (*classes, name)
    index = classes.index(name)
    wrong = np.flatnonzero(labels.names_class(index))
    if len(wrong):
        raise InputError(
            f"{describe(wrong[0])} has the label {name}, the background, as {len(wrong)} of {len(labels)} bags do: "
            "the background does not vote and cannot win; label a bag with the most common class of its other "
            "instances, leave out bags that have none, or name another background"
        )
    if len(classes) < 3:
        raise InputError(f"{len(classes) - 1} classes besides the background {name}: a majority needs at least 2")
    return classes, index
