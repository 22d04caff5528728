"""SVHN's cropped digits, and any .mat file in their layout: X (32, 32, 3, N), y with 10 for the digit 0."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...errors import InputError
from .array_checks import check_images, describe_array, flatten_column, number_labels
from .catalogue import COMMON, NamedSource
from .fetch import fetch
from .labelled import LabelledSet
from .mat_file import read_arrays

CLASSES = tuple("0123456789")
FILES = ("train_32x32.mat", "test_32x32.mat")


def load_svhn() -> LabelledSet:
    images, digits = zip(*(_read(fetch(name)) for name in FILES), strict=True)
    return LabelledSet("svhn", np.concatenate(images), np.concatenate(digits), CLASSES)


def load_mat(path: Path) -> LabelledSet:
    """One .mat file in SVHN's layout; the classes are the digits that occur in it."""
    images, digits = _read(path)
    labels, classes = number_labels(path, digits)
    return LabelledSet(path.stem, images, labels, classes)


def _read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    content = read_arrays(path, ("X", "y"))
    missing = [key for key in ("X", "y") if key not in content]
    if missing:
        raise InputError(f"{path} has no {' and no '.join(missing)}: SVHN's layout is X (h, w, 3, n) and y (n, 1)")
    images, labels = content["X"], content["y"]
    if images.ndim != 4:
        raise InputError(f"{path}: X has {describe_array(images)}: save it as uint8 of shape (h, w, 3, n)")
    images = np.ascontiguousarray(images.transpose(3, 0, 1, 2))  # (n, h, w, 3)
    check_images(path, "the images X", images)
    labels = flatten_column(path, "the labels y", labels, len(images))
    wrong = np.flatnonzero(~np.isin(labels, range(1, 11)))
    if len(wrong):
        raise InputError(
            f"{path}: y[{wrong[0]}] is {labels[wrong[0]]}: SVHN's labels run from 1 to 10, with 10 for the digit 0"
        )
    return images, labels.astype(np.int64) % 10


SOURCES = [
    NamedSource(
        "svhn",
        load_svhn,
        CLASSES,
        instances=99_289,
        shape=(32, 32, 3),
        licence="non-commercial use",
        files=FILES,
        label_preserving=(*COMMON, "grey"),  # a mirrored or rotated digit is another character
    ),
]
