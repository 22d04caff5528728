"""Which augmentations leave the classes of a known source as they are."""

from __future__ import annotations

_ANYWHERE = ("crop", "resized-crop", "cutout", "colour", "hue", "affine", "noise")

# What leaves each source's classes as they are.
LABEL_PRESERVING: dict[str, tuple[str, ...]] = {
    "cifar10": ("flip", *_ANYWHERE, "grey"),
    "svhn": (*_ANYWHERE, "grey"),  # a mirrored or turned digit is another sign
    "digits": _ANYWHERE,
    "pathmnist": ("flip", "rotate90", *_ANYWHERE),  # tissue and cells under a microscope have no upright
    "bloodmnist": ("flip", "rotate90", *_ANYWHERE),
    "tissuemnist": ("flip", "rotate90", *_ANYWHERE),
    "dermamnist": ("flip", "rotate90", *_ANYWHERE),
    "octmnist": ("flip", *_ANYWHERE),  # the mirror of a left eye is a right eye; layers lie level
    "retinamnist": ("flip", *_ANYWHERE),
    "breastmnist": ("flip", *_ANYWHERE),  # ultrasound comes from above
    "pneumoniamnist": _ANYWHERE,  # the heart is on the left
    "organamnist": _ANYWHERE,  # left and right kidney, lung and femur are classes
    "organcmnist": _ANYWHERE,
    "organsmnist": _ANYWHERE,
}


def known_source(source: str) -> str | None:
    """The known source that this one is of. A file is known by the beginning of its name.

    >>> kind_of("svhn28"), kind_of("my scans")
    ('svhn', None)
    """
    return max((name for name in LABEL_PRESERVING if source.startswith(name)), key=len, default=None)


def label_preserving(source: str) -> tuple[str, ...]:
    """Names of the augmentations that leave this source's classes as they are; of an unknown source, those
    that leave orientation and colour alone.

    >>> "flip" in lawful("cifar10"), "flip" in lawful("svhn28"), lawful("my scans")
    (True, False, ('crop', 'resized-crop', 'cutout', 'noise'))
    """
    return LABEL_PRESERVING.get(known_source(source), ("crop", "resized-crop", "cutout", "noise"))
