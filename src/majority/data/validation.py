"""What Bags checks of itself: each failure names the place and the cure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..errors import InputError
from .feature_files import FLOATS
from .stores import iterate_chunks

FINE = 1e-3  # of a column's deviation: steps that do no harm


def as_array(values) -> np.ndarray:
    """Arrays, lists, pandas frames and columns, and tensors of any device, as arrays."""
    if hasattr(values, "detach"):  # a tensor; numpy has no bfloat16
        values = values.detach().cpu()
        return (values.float() if str(values.dtype) == "torch.bfloat16" else values).numpy()
    return np.asarray(values)


def whole_numbers(values, what: str) -> np.ndarray:
    values = np.asarray(values)
    if not np.issubdtype(values.dtype, np.integer) or values.ndim != 1:
        raise InputError(f"{what} has dtype {values.dtype} and shape {values.shape}: give one row of integers")
    return values.astype(np.int64, copy=False)


def sortable(names: np.ndarray) -> np.ndarray:
    """Names of which some are text and some numbers, which have no order, all as text."""
    if names.dtype != object or len({isinstance(name, str) for name in names}) < 2:
        return names
    return names.astype(str)


def missing(values: np.ndarray) -> np.ndarray:
    """Positions of None, NaN and the like."""
    if values.dtype.kind not in "OfMm":
        return np.empty(0, np.int64)
    import pandas as pd

    return np.flatnonzero(pd.isna(values))


def check_store(store: np.ndarray) -> None:
    images = store.ndim == 4 and store.dtype == np.uint8
    vectors = store.ndim == 2 and store.dtype in FLOATS  # which are those of torch, in this machine's byte order
    if not (images or vectors):
        raise InputError(
            f"instances have shape {store.shape[1:]} and dtype {store.dtype}: give images as uint8 "
            "(n, height, width, channels) or vectors as float16, float32 or float64 (n, d), e.g. X.astype('float32')"
        )
    if images and store.shape[3] not in (1, 3):
        raise InputError(f"images have {store.shape[3]} channels: give grey (1) or colour (3) images")
    if 0 in store.shape[1:]:
        raise InputError(f"instances have shape {store.shape[1:]}: an instance needs at least one value")


def check_positions(index: np.ndarray, offsets: np.ndarray, stored: int) -> None:
    if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != len(index):
        raise InputError(
            f"offsets must run from 0 to the number of instances ({len(index)}), one entry more than there are bags"
        )
    empty = np.flatnonzero(np.diff(offsets) <= 0)
    if len(empty):
        raise InputError(f"bag {empty[0]} is empty: leave it out or give it at least one instance")
    outside = np.flatnonzero((index < 0) | (index >= stored))
    if len(outside):
        bag = np.searchsorted(offsets, outside[0], side="right") - 1
        raise InputError(
            f"bag {bag}, instance {outside[0] - offsets[bag]} points at position {index[outside[0]]}: "
            f"positions in this store run from 0 to {stored - 1}"
        )


def check_lengths(columns: dict[str, Sequence | None], need: int, unit: str) -> None:
    for what, values in columns.items():
        if values is not None and len(values) != need:
            raise InputError(f"{need} {unit}s but {len(values)} {what}: give one for each {unit}")


def check_coordinates(coordinates: np.ndarray | None) -> None:
    if coordinates is not None and coordinates.shape[1:] != (2,):
        raise InputError(f"coordinates have shape {coordinates.shape}: give an (x, y) for each instance")


def needs_double(largest: np.ndarray, deviations: np.ndarray) -> bool:
    """Whether float32 is too coarse for one of these columns, as it is for seconds since 1970.

    >>> needs_double(np.array([1.7e9, 1.0]), np.array([30.0, 0.5])), needs_double(np.array([9e3]), np.array([10.0]))
    (True, False)
    """
    with np.errstate(all="ignore"):  # NaN and infinity are told elsewhere
        steps = np.spacing(np.abs(largest).astype(np.float32))
        return bool((steps > FINE * deviations)[deviations > 0].any())


def not_finite(rows: np.ndarray) -> np.ndarray:  # (n, d) -> (n,)
    """Which rows hold NaN or infinity, or a number that is one as a float32."""
    with np.errstate(over="ignore"):
        return ~np.isfinite(rows.astype(np.float32, copy=False)).all(axis=1)


def first_not_finite(store: np.ndarray, index: np.ndarray) -> int | None:
    """Position of the first instance in use that is not finite."""
    if store.dtype == np.uint8 or getattr(store, "known_finite", False):
        return None
    start = 0
    for block in iterate_chunks(store, index):
        bad = np.flatnonzero(not_finite(block))
        if len(bad):
            return int(start + bad[0])
        start += len(block)
    return None


def encode(labels: Sequence, classes: Sequence[str], where: Callable[[int], str]) -> np.ndarray:
    """Class names or class numbers -> class numbers, each checked."""
    labels = label_column(labels)
    twice = [name for i, name in enumerate(classes) if name in classes[:i]]
    if twice:
        raise InputError(f"class {twice[0]} is named twice: give each class one name of its own")
    if np.issubdtype(labels.dtype, np.integer):
        codes = labels.astype(np.int64)
        wrong = np.flatnonzero((codes < 0) | (codes >= len(classes)))
    else:
        number = {name: i for i, name in enumerate(classes)}
        codes = np.array([number.get(str(label), -1) for label in labels], dtype=np.int64)
        wrong = np.flatnonzero(codes < 0)
    if len(wrong):
        known = ", ".join(classes[:10]) + (", ..." if len(classes) > 10 else "")
        raise InputError(
            f"{where(wrong[0])} has label {labels[wrong[0]]}, outside the {len(classes)} classes ({known}): "
            "correct the label or name its class"
        )
    return codes


def name_classes(labels) -> tuple[np.ndarray, list[str]]:
    """Labels as names, and the classes they name, in sorted order (numbers by value)."""
    column = label_column(labels)
    return column.astype(str), [str(name) for name in np.unique(sortable(column))]


def label_column(labels: Sequence) -> np.ndarray:
    labels = as_array(labels)
    if labels.ndim != 1:
        raise InputError(f"labels have shape {labels.shape}: give one row of them, e.g. y.ravel()")
    if labels.dtype.kind not in "UOiu":
        raise InputError(f"labels have dtype {labels.dtype}: give class names (text) or class numbers (integers)")
    if labels.dtype == object:
        odd = [label for label in labels if not isinstance(label, str | int | np.integer)]
        if odd:
            raise InputError(f"labels hold {odd[0]}: give every bag and instance a class name or a class number")
    return labels
