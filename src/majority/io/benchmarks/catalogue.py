"""NamedSource: a labelled set that is loaded by its name. `register()` adds ours and yours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...errors import InputError, unknown_name
from ...registry import Registry
from .labelled import LabelledSet
from .published import PUBLISHED, find


@dataclass(frozen=True)
class NamedSource:
    """A labelled set with a name, and what `majority list` shows of it before it is read. Only `name` and `load` are
    needed. In a file of your own, which MAJORITY_PLUGINS names:

        import numpy as np
        from majority import LabelledSet, register
        from majority.io import NamedSource

        def load_mine():
            return LabelledSet("mine", np.load("images.npy"), np.load("labels.npy"), ("cat", "dog"))

        register(NamedSource("mine", load_mine, classes=("cat", "dog"), licence="CC0"))

    After that `majority.load_source("mine")` and `majority train mine` know it.
    """

    name: str
    load: Callable[[], LabelledSet]
    classes: tuple[str, ...] = ()
    instances: int | None = None  # training and test set together
    shape: tuple[int, ...] | None = None  # of one instance
    licence: str = "none stated"
    location: str = "loaded by its own function"  # shown for a source without published files
    files: tuple[str, ...] = ()  # the published files that it reads, as named in PUBLISHED
    archive: str | None = None  # a published file that contains `files`
    label_preserving: tuple[str, ...] | None = None  # augmentations that keep the classes; None: not known
    mixed_views: bool = False  # whether census mixes pairs of images in pretraining

    def __post_init__(self) -> None:
        if self.mixed_views and self.label_preserving is None:
            raise InputError(f"source {self.name}: mixed_views needs label_preserving: name the augmentations too")

    def locate(self) -> tuple[bool, str]:
        """Whether its files are on this machine, and where they are or can be downloaded."""
        if not self.files:
            return True, self.location
        paths = [path for path in map(find, self.files) if path is not None]
        if len(paths) == len(self.files):
            return True, str(paths[0] if len(paths) == 1 else paths[0].parent)
        archive = find(self.archive) if self.archive else None
        return archive is not None, str(archive or PUBLISHED[self.files[0]].url)


SOURCES: Registry[NamedSource] = Registry("source", NamedSource)


def known_sources() -> dict[str, tuple[str, ...]]:
    """The augmentations that keep the classes of each source that names them."""
    from ...training.augment import AUGMENTATIONS  # PyTorch takes long to import

    known = {name: source.label_preserving for name, source in SOURCES.items() if source.label_preserving is not None}
    for source, names in known.items():
        for name in set(names) - AUGMENTATIONS.keys():
            raise unknown_name("augmentation", name, AUGMENTATIONS, option=f"label_preserving of source {source}")
    return known


def known_of(source: str) -> dict[str, Any]:
    """What a `TaskInfo` says of the images of this source; nothing if it is not registered, or says nothing.

    >>> known_of("my scans")
    {}
    """
    known = known_sources()
    return {"label_preserving": known[source], "mixed_views": SOURCES[source].mixed_views} if source in known else {}
