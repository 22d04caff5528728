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
    wrong = np.flatnonzero(labels.naming(index))
    if len(wrong):
        raise InputError(
            f"{describe(wrong[0])} has the label {name}, the background, as {len(wrong)} of {len(labels)} bags do: "
            "the background does not vote and cannot win; label a bag with the most common class of its other "
            "instances, leave out bags that have none, or name another background"
        )
    if len(classes) < 3:
        raise InputError(f"{len(classes) - 1} classes besides the background {name}: a majority needs at least 2")
    return classes, index


def voter_counts(counts: np.ndarray, background: int | None) -> np.ndarray:  # (b, K) -> (b, K), 0 at the background
    if background is None:
        return counts
    return np.where(np.arange(counts.shape[1]) == background, 0, counts)


def majority_of(counts: np.ndarray, background: int | None = None) -> np.ndarray:
    """(b, K) instances of each class -> (b,) the class with the most votes; the first one wins ties.

    A bag without votes has no majority: its class is the background.

    >>> majority_of(np.array([[9, 1, 2], [9, 0, 0]]), background=0).tolist()
    [2, 0]
    """
    votes = voter_counts(counts, background)
    winners = votes.argmax(axis=1)
    return winners if background is None else np.where(votes.any(axis=1), winners, background)


def runner_up_of(counts: np.ndarray, background: int | None = None) -> np.ndarray:
    """(b, K) instances of each class -> (b,) the class with the second most votes; the first one wins ties.

    >>> runner_up_of(np.array([[9, 1, 2, 1], [9, 0, 4, 4]]), background=0).tolist()
    [1, 3]
    """
    votes = voter_counts(counts, background).copy()
    np.put_along_axis(votes, votes.argmax(axis=1)[:, None], -1, axis=1)
    if background is not None:
        votes[:, background] = -1
    return votes.argmax(axis=1)


def lead_of(counts: np.ndarray, background: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """(b, K) instances of each class -> (b,) the majority's share of the votes, and (b,) its lead over the runner-up.

    Both are 0 in a bag without votes.

    >>> share, margin = lead_of(np.array([[9, 1, 3], [9, 0, 0]]), background=0)
    >>> share.tolist(), margin.tolist()
    ([0.75, 0.0], [0.5, 0.0])
    """
    votes = voter_counts(counts, background)
    runner_up, top = np.sort(np.pad(votes, ((0, 0), (1, 0))), axis=1)[:, -2:].T
    total = votes.sum(axis=1)
    voters = np.where(total > 0, total, 1)
    return top / voters, (top - runner_up) / voters
