"""How a source of one's own is to be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import InputError

if TYPE_CHECKING:
    from .originals import Originals


@dataclass(frozen=True)
class Wish:
    """How a source is to be read."""

    labels: bool = True  # bag labels are needed; without, label and split columns are not looked at
    training: bool = True  # every class must be in every split
    classes: tuple[str, ...] | None = None  # of a classifier: no others may occur
    image_size: tuple[int, int] | None = None  # (height, width)
    channels: int | None = None
    seen: Originals | None = None  # the images that a classifier was trained on
    features: tuple[str, ...] | None = None  # columns of a manifest


def pixels(image_size: int | None) -> tuple[int, int] | None:
    if image_size is not None and not 1 <= image_size <= 1024:
        raise InputError(f"--image-size {image_size}: give the pixels a side, 1 to 1024")
    return None if image_size is None else (image_size, image_size)
