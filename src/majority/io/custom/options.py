"""ReadOptions: how bags of your own are read."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ...data.column_encoder import ColumnEncoder
from ...errors import InputError
from ..image_summary import ImageFileSummary
from .findings import abbreviate_names, join_names

LARGEST_IMAGE = 1024  # pixels per side to which images can be resized


@dataclass(frozen=True)
class ColumnNames:
    """The columns of a table that have other names than the usual ones."""

    bag: str | None = None
    label: str | None = None  # the label of the bag
    path: str | None = None


@dataclass(frozen=True)
class Block:
    """A piece of a source: some of its feature files, or the rows [start, start + rows) of a table.

    Of Parquet, `row_groups` are the file and the number of each row group with these rows.
    """

    files: tuple[str, ...] = ()
    start: int = 0
    rows: int = 0
    row_groups: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class ReadOptions:
    """How a manifest or a folder is read: for training, or for an existing classifier."""

    labels: bool = True  # bag labels are required; if False, the columns of labels and splits are not read
    unlabelled: bool = False  # bags may be without labels
    training: bool = True  # every class must occur in the training and validation splits
    review: bool = False  # the labels of bags are looked at: labels of instances are not enough
    classes: tuple[str, ...] | None = None  # the classes of a classifier; no other label may occur
    image_size: tuple[int, int] | None = None  # (height, width)
    channels: int | None = None
    trained_images: ImageFileSummary | None = None  # the image files that a classifier was trained on
    features: tuple[str, ...] | None = None  # columns of a manifest to train on
    encoder: ColumnEncoder | None = None  # what a classifier's training data made of its columns
    names: ColumnNames = field(default_factory=ColumnNames)  # those of a classifier's training data need not occur
    encoder_shape: tuple[int, int, int] | None = None  # images are read for an encoder, at this shape and on demand
    block: Block | None = None  # read this piece only; None: everything

    @property
    def for_classifier(self) -> bool:
        """Whether the bags are for a classifier, so that its training data and not the options say how to read."""
        return self.classes is not None

    def check_applicable(self, source: Path, images: bool, columns: bool = False) -> None:
        """Refuse a source of another kind than the classifier or the options need; `columns`: it is a table of
        numbers."""
        if images and self.encoder_shape is not None:
            return
        content, leave = "images" if images else "vectors", "leave it out"
        if self.for_classifier and images and self.image_size is None:
            kind = f"the columns {abbreviate_names(self.encoder.names)}" if self.encoder else "columns of numbers"
            raise InputError(f"the run classifies vectors, but {source} names images: give a table with {kind}")
        if self.for_classifier and columns and self.image_size is not None:
            raise InputError(f"the run classifies images, but {source} names none: add a column path")
        if not self.for_classifier and self.image_size is not None and not images:
            raise InputError(f"--image-size {self.image_size[0]} given, but {source} contains {content}: {leave}")
        if not self.for_classifier and self.features is not None and not columns:
            raise InputError(
                f"--features {join_names(self.features)} given, but {source} is no table of numbers: {leave}"
            )


def as_pixel_size(image_size: int | None) -> tuple[int, int] | None:
    if image_size is not None and not 1 <= image_size <= LARGEST_IMAGE:
        raise InputError(f"image size {image_size}: give the pixels per side, 1 to {LARGEST_IMAGE}")
    return None if image_size is None else (image_size, image_size)
