"""Bags in memory as a source: `majority.train` takes them as it takes files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..data.bags import Bags
from ..data.splitting import MIN_BAGS
from ..errors import InputError
from .base import IN_MEMORY, Parts, Source
from .custom.custom_bags import CustomBags, check_labelled
from .image_summary import ImageFileSummary


@dataclass(frozen=True, eq=False)
class GivenParts(Source):
    """Training, validation and test bags that the caller has made."""

    parts: Parts
    name: str = IN_MEMORY

    def __post_init__(self) -> None:
        self.parts.train.check_labels()
        for part, bags in self.parts.present().items():
            check_labelled(bags, f"the {part} bags", all_of_them=part == "val")
            if bags.classes != self.parts.train.classes:
                found = f"the {part} bags have classes {bags.classes}, the train bags {self.parts.train.classes}"
                raise InputError(f"{found}: make all parts with the same classes, in the same order (classes=...)")

    @property
    def image_files(self) -> ImageFileSummary | None:
        return ImageFileSummary.of_store(self.parts.train.store)

    def make_parts(self, *, background: str | None = None, min_bags: int = MIN_BAGS, **choices: object) -> Parts:
        """The parts as they were given. Every choice that would make or divide bags is refused."""
        choices["min_bags"] = min_bags != MIN_BAGS
        refused = sorted(name for name, value in choices.items() if value)
        if refused:
            raise InputError(f"{', '.join(refused)}: the parts are given, so nothing is divided: leave it out")
        if background is None:
            return self.parts
        given = {name: bags.with_background(background) for name, bags in self.parts.present().items()}
        return Parts(given["train"], given["val"], given.get("test"))


def as_source(bags: Any) -> Source:
    """A source of bags, of a tuple (train, val) or (train, val, test) of bags, or the source that is given itself."""
    if isinstance(bags, Source):
        return bags
    if isinstance(bags, Bags):
        return CustomBags(IN_MEMORY, bags)
    if isinstance(bags, tuple | list) and len(bags) in (2, 3):
        train, val, test = (*bags, None)[:3]
        if isinstance(train, Bags) and isinstance(val, Bags) and isinstance(test, Bags | None):
            return GivenParts(Parts(train, val, test))
    kinds = "a name, a path, what load_source returns, Bags, or a tuple of Bags (train, val, test)"
    raise InputError(f"train: the source is an object of type {type(bags).__name__}: give {kinds}")
