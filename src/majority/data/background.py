"""A class that does not vote: instances may belong to it, bag labels never name it, counts leave it out."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..errors import InputError


@dataclass(frozen=True)
class Background:
    """Which class does not vote and, where it is known, which share of all instances is of it."""

    index: int  # among the classes
    share: float | None = None  # prior; None: nothing is said about it
    phantom: float = 0.25  # votes added to a bag, as a share of its size, where proportions of votes are compared

    def __post_init__(self):
        if self.share is not None and not 0 < self.share < 1:
            raise InputError(
                f"background share {self.share}: give the share of all instances that do not vote, between 0 and 1"
            )
        if not (self.phantom >= 0 and math.isfinite(self.phantom)):
            raise InputError(f"background phantom {self.phantom}: it must be 0 or above")


def place_background(name: str, classes: tuple[str, ...], labels: np.ndarray, describe) -> tuple[tuple[str, ...], int]:
    """The classes with the background among them (last where it was not), and its number; no label may be it."""
    if not name.strip():
        raise InputError("the background has no name: give one, such as normal")
    if name not in classes:
        classes = (*classes, name)
    index = classes.index(name)
    wrong = np.flatnonzero(labels == index)
    if len(wrong):
        raise InputError(
            f"{describe(wrong[0])} has the label {name}, the background, and {len(wrong)} of {len(labels)} bags have: "
            "the background does not vote and cannot win; label a bag with the class that most of its other "
            "instances have, leave bags without any out, or name another background"
        )
    if len(classes) < 3:
        raise InputError(f"{len(classes) - 1} classes besides the background {name}: a majority needs at least 2")
    return classes, index


def voter_counts(counts: np.ndarray, background: int | None) -> np.ndarray:  # (b, K) -> (b, K), 0 at the background
    if background is None:
        return counts
    return np.where(np.arange(counts.shape[1]) == background, 0, counts)


def majority_of(counts: np.ndarray, background: int | None = None) -> np.ndarray:
    """(b, K) instances of each class -> (b,) the class with most votes, the first of those that tie.

    A bag in which nobody votes has no majority: its class is the background.

    >>> majority_of(np.array([[9, 1, 2], [9, 0, 0]]), background=0).tolist()
    [2, 0]
    """
    votes = voter_counts(counts, background)
    winners = votes.argmax(axis=1)
    return winners if background is None else np.where(votes.any(axis=1), winners, background)


def lead_of(counts: np.ndarray, background: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """(b, K) instances of each class -> (b,) the majority's share of the votes, and how far it is ahead of the next.

    Both are 0 where nobody votes.

    >>> share, margin = lead_of(np.array([[9, 1, 3], [9, 0, 0]]), background=0)
    >>> share.tolist(), margin.tolist()
    ([0.75, 0.0], [0.5, 0.0])
    """
    votes = voter_counts(counts, background)
    runner_up, top = np.sort(np.pad(votes, ((0, 0), (1, 0))), axis=1)[:, -2:].T
    voters = np.maximum(votes.sum(axis=1), 1)
    return top / voters, (top - runner_up) / voters
