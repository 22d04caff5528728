"""Checks of the arrays in a file of labelled instances. Each error names the file and the cure."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...errors import InputError


def check_images(path: Path, what: str, images: np.ndarray) -> None:  # (n, h, w, c)
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] not in (1, 3):
        raise InputError(
            f"{path}: {what} have {describe_array(images)}: save 8-bit (uint8) images with 1 or 3 channels"
        )
    if 0 in images.shape:
        raise InputError(f"{path}: {what} have shape {images.shape}: save at least one image of at least one pixel")


def check_vectors(path: Path, what: str, vectors: np.ndarray) -> None:  # (n, d)
    if vectors.dtype.kind != "f" or vectors.ndim != 2 or 0 in vectors.shape:
        raise InputError(
            f"{path}: {what} have {describe_array(vectors)}: save floating-point vectors, one row per instance"
        )


def flatten_column(path: Path, what: str, values: np.ndarray, count: int) -> np.ndarray:
    """(n,), (n, 1) or (1, n) values -> (n,), one per image."""
    if values.size != count or max(values.shape, default=0) != count:
        raise InputError(
            f"{path}: {what} have shape {values.shape}: save exactly one for each of the {count} instances"
        )
    return values.reshape(count)


def number_labels(path: Path, values: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """Label values of any type -> class numbers from 0, and the class names in the order of the values."""
    found, labels = np.unique(values, return_inverse=True)
    if len(found) < 2:
        raise InputError(f"{path} has only the class {found[0]}: give instances of at least two classes")
    return labels, tuple(str(value) for value in found)


def describe_array(values: np.ndarray) -> str:
    return f"dtype {values.dtype} and shape {values.shape}"
