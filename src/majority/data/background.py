"""A background class does not vote: instances may belong to it, but no bag is labelled with it and no count has it."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import InputError


@dataclass(frozen=True)
class Background:
    """The class that does not vote and, if it is known, its share of all instances."""

    index: int  # among the classes
    share: float | None = None  # prior; None: not known
    phantom: float = 0.25  # votes added to each bag, as a share of its size, when proportions of votes are compared

    def __post_init__(self) -> None:
        if self.share is not None and not 0 < self.share < 1:
            raise InputError(f"background share {self.share}: give the share of all instances, between 0 and 1")
