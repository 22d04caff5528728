"""What registered sources say of their images: which augmentations keep the classes."""

from __future__ import annotations

from typing import Any

from ...errors import unknown_name
from ...training.augment import AUGMENTATIONS
from .catalogue import SOURCES


def known_sources() -> dict[str, tuple[str, ...]]:
    """The augmentations that keep the classes of each source that names them."""
    named = {name: source.label_preserving for name, source in SOURCES.items()}
    known = {name: names for name, names in named.items() if names is not None}
    for source, names in known.items():
        for name in set(names) - AUGMENTATIONS.keys():
            raise unknown_name("augmentation", name, AUGMENTATIONS, option=f"label_preserving of source {source}")
    return known


def known_of(source: str) -> dict[str, Any]:
    """What a `TaskInfo` says of the images of this source; nothing if it is not registered, or says nothing.

    >>> known_of("cifar10")["mixed_views"], known_of("my scans")
    (True, {})
    """
    if source not in known_sources():
        return {}
    return {"label_preserving": known_sources()[source], "mixed_views": SOURCES[source].mixed_views}
