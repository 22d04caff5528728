"""Which augmentations keep the class of an image: registered sources say so, and images of other files are unknown."""

from __future__ import annotations

from ..errors import unknown_name
from ..io.benchmarks.catalogue import SOURCES
from ..training.augment import AUGMENTATIONS

UNKNOWN_SOURCE = ("crop", "resized-crop", "cutout", "noise")  # orientation and colour stay as they are


def known_sources() -> dict[str, tuple[str, ...]]:
    """The augmentations that keep the classes of each source that names them."""
    named = {name: source.label_preserving for name, source in SOURCES.items()}
    known = {name: names for name, names in named.items() if names is not None}
    for source, names in known.items():
        for name in set(names) - AUGMENTATIONS.keys():
            raise unknown_name("augmentation", name, AUGMENTATIONS, option=f"label_preserving of source {source}")
    return known


def label_preserving(source: str) -> tuple[str, ...]:
    """Names of the augmentations that keep the classes of this source.

    >>> "flip" in label_preserving("cifar10"), "flip" in label_preserving("svhn"), label_preserving("my scans")
    (True, False, ('crop', 'resized-crop', 'cutout', 'noise'))
    """
    return known_sources().get(source, UNKNOWN_SOURCE)
