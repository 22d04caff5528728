"""How a source of one's own is to be read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...errors import InputError
from ..image_summary import ImageFileSummary
from .names import features_option, shown_names


@dataclass(frozen=True)
class ReadOptions:
    """How a source is to be read."""

    labels: bool = True  # bag labels are needed; without, label and split columns are not looked at
    unlabelled: bool = False  # they are not needed where there are none
    training: bool = True  # every class must be in every split
    classes: tuple[str, ...] | None = None  # of a classifier: no others may occur
    image_size: tuple[int, int] | None = None  # (height, width)
    channels: int | None = None
    seen: ImageFileSummary | None = None  # the images that a classifier was trained on
    features: tuple[str, ...] | None = None  # columns of a manifest

    @property
    def of_run(self) -> bool:
        """Whether a classifier asks: what it was trained on, rather than options, says how to read."""
        return self.classes is not None

    def refuse_unfit(self, source: Path, images: bool, columns: bool) -> None:
        """What is asked of images or of columns cannot be had where there are none."""
        if self.of_run:
            if images and self.image_size is None:
                columns = f" with the columns {shown_names(self.features)}" if self.features else ", or feature files"
                raise InputError(f"the run classifies vectors, but {source} names images: give a table{columns}")
            if columns and self.image_size is not None:
                raise InputError(f"the run classifies images, but {source} names none: add a column path")
            return
        there = "images" if images else "vectors"
        if self.image_size is not None and not images:
            option = f"--image-size {self.image_size[0]} says how large images are to be"
            raise InputError(f"{option}: {source} holds {there}, leave it out")
        if self.features is not None and not columns:
            option = f"{features_option(self.features)} names columns of a manifest"
            raise InputError(f"{option}: {source} holds {there}{' in files' if not images else ''}, leave it out")


def as_pixel_size(image_size: int | None) -> tuple[int, int] | None:
    if image_size is not None and not 1 <= image_size <= 1024:
        raise InputError(f"--image-size {image_size}: give the pixels a side, 1 to 1024")
    return None if image_size is None else (image_size, image_size)
