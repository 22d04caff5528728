"""Data: which bags an experiment works with."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ..errors import InputError
from ..methods import METHODS
from ..sources import CustomBags, LabelledSet, Parts, is_custom_source, load, names


@dataclass(frozen=True)
class Data:
    """Which bags: the same for every method, so that comparisons are paired."""

    source: str
    scenario: str | None = None  # None: various, where bags are made; bags of one's own are taken as they are
    fold: int = 0
    bags: int | None = None  # None: the source's own number
    bag_size: int | None = None
    ties: str | None = None  # None: lowest
    with_replacement: bool = False
    data_seed: int = 0
    folds: int | None = None  # of one's own bags
    image_size: int | None = None  # of a manifest, like features
    features: tuple[str, ...] | None = None
    background: str | None = None  # a class that does not vote
    classes: int | None = None  # the first so many of a labelled set; None: all
    winner_ratio: float | None = None  # the first class wins so many times as often as the last; None: all alike

    def __post_init__(self):
        for name in ("bags", "bag_size"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise InputError(f"--{name.replace('_', '-')} {getattr(self, name)}: give 1 or more")

    @property
    def path(self) -> str | None:
        """Of a source that is a file or folder, wherever it is read from; a link stays one, as its images may lie
        beside it."""
        return None if self.source in names() else os.path.abspath(Path(self.source).expanduser())

    def with_defaults(self) -> Data:
        """With the defaults of the source's kind written out."""
        if is_custom_source(self.source):
            if self.folds is not None and self.folds < 3:
                raise InputError(f"--folds {self.folds}: give 3 or more (one tests, one validates)")
            return self
        if self.folds is not None:
            raise InputError(f"--folds {self.folds}: benchmark sets always have five folds; choose one with --fold")
        return replace(self, scenario=self.scenario or "various", ties=self.ties or "lowest")

    def open(self) -> LabelledSet | CustomBags:
        return load(self.source, self.image_size, self.features)

    def parts(self, source: LabelledSet | CustomBags | None = None) -> Parts:
        choices = asdict(self.with_defaults())
        for name in ("source", "image_size", "features"):
            choices.pop(name)
        source = source or self.open()
        if isinstance(source, LabelledSet):
            choices.pop("folds")
        return source.make_parts(**choices)


def fingerprints(parts: Parts, method: str) -> list[str | None]:
    """Hashes of what the method's training can see."""
    truth = METHODS.find(method).head.sees_instance_labels
    return [part and (part if truth else part.without_instance_labels()).fingerprint() for part in parts]
