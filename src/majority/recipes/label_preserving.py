"""Which augmentations keep the class of an image, for each known source."""

from __future__ import annotations

from ..sources.benchmarks.catalogue import SOURCES

COMMON = ("crop", "resized-crop", "cutout", "colour", "hue", "affine", "noise")
UNKNOWN_SOURCE = ("crop", "resized-crop", "cutout", "noise")  # orientation and colour stay as they are

LABEL_PRESERVING: dict[str, tuple[str, ...]] = {
    "cifar10": ("flip", *COMMON, "grey"),
    "svhn": (*COMMON, "grey"),  # a mirrored or rotated digit is another character
    "digits": COMMON,
    "pathmnist": ("flip", "rotate90", *COMMON),  # tissue and cells under a microscope have no orientation
    "bloodmnist": ("flip", "rotate90", *COMMON),
    "tissuemnist": ("flip", "rotate90", *COMMON),
    "dermamnist": ("flip", "rotate90", *COMMON),
    "octmnist": ("flip", *COMMON),  # a mirrored left eye is a right eye; retinal layers are horizontal
    "retinamnist": ("flip", *COMMON),
    "breastmnist": ("flip", *COMMON),  # ultrasound comes from above
    "pneumoniamnist": COMMON,  # the heart is on the left
    "organamnist": COMMON,  # left and right kidney, lung and femur are classes
    "organcmnist": COMMON,
    "organsmnist": COMMON,
}


def known_sources() -> dict[str, tuple[str, ...]]:
    """The augmentations that keep the classes of each known source: ours, and registered ones that name them."""
    registered = {name: source.label_preserving for name, source in SOURCES.items()}
    return LABEL_PRESERVING | {name: names for name, names in registered.items() if names is not None}


def known_source(source: str) -> str | None:
    """The known source of this name or, for a file, the one whose name it starts with; None if there is none.

    >>> known_source("svhn"), known_source("svhn28"), known_source("my scans")
    ('svhn', 'svhn', None)
    """
    known = known_sources()
    if source in SOURCES:
        return source if source in known else None
    return max((name for name in known if source.startswith(name)), key=len, default=None)


def label_preserving(source: str) -> tuple[str, ...]:
    """Names of the augmentations that keep the classes of this source.

    >>> "flip" in label_preserving("cifar10"), "flip" in label_preserving("svhn28"), label_preserving("my scans")
    (True, False, ('crop', 'resized-crop', 'cutout', 'noise'))
    """
    known = known_source(source)
    return UNKNOWN_SOURCE if known is None else known_sources()[known]
