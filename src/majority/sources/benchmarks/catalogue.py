"""What is known of a named source before it is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .labelled import LabelledSet


@dataclass(frozen=True)
class NamedSource:
    name: str
    classes: tuple[str, ...]
    instances: int  # those used: train and test together
    shape: tuple[int, ...]
    licence: str
    files: tuple[str, ...]  # all that it reads, as named in PUBLISHED
    load: Callable[[], LabelledSet]
    archive: str | None = None  # a published file that holds `files`
