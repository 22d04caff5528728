"""Checks of the arrays that make up Bags. Every message names the place of the problem and its cure."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..errors import InputError
from .feature_files import FLOATS
from .stores import RowsOnDisk, Store, iterate_chunks

LARGEST_FEATURE = 1e30  # sums of many larger ones may be infinite as float32
LARGEST_COORDINATE = 2**53  # every whole number up to it is a float64
LARGEST_WEIGHT = 1e15  # and its inverse the smallest: sums stay exact enough to find the largest
WEIGHT_CURE = f"give a number above 0 (from {1 / LARGEST_WEIGHT:g} to {LARGEST_WEIGHT:g}), or leave the instance out"
FINE_STEP = 1e-3  # float32 steps of at most this share of a column's standard deviation do no harm


class Column(Protocol):
    """A list, array, tensor or pandas column."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...

    def __getitem__(self, index: Any, /) -> Any: ...


def as_array(values: Any) -> np.ndarray:
    """Return lists, pandas frames and columns, and tensors of any device as arrays."""
    if hasattr(values, "detach"):  # a tensor; numpy has no bfloat16
        values = values.detach().cpu()
        return (values.float() if str(values.dtype) == "torch.bfloat16" else values).numpy()
    return np.asarray(values)


def as_integers(values: Column, what: str) -> np.ndarray:
    """`what` names the values in an error message."""
    array = as_array(values)
    if not np.issubdtype(array.dtype, np.integer) or array.ndim != 1:
        raise InputError(f"{what} has dtype {array.dtype} and shape {array.shape}: give a 1D array of integers")
    return array.astype(np.int64, copy=False)


def as_sortable(names: np.ndarray) -> np.ndarray:
    """Return names as text if they mix text and numbers, which have no common order."""
    if names.dtype != object or names.ndim == 0 or len({isinstance(name, str) for name in names}) < 2:
        return names
    return names.astype(str)


def find_missing(values: np.ndarray) -> np.ndarray:
    """Return the positions of None, NaN and other missing values."""
    if values.dtype.kind not in "OfMm":
        return np.empty(0, np.int64)
    import pandas as pd

    return np.flatnonzero(pd.isna(values))


def check_store(store: Store) -> None:
    images = store.ndim == 4 and store.dtype == np.uint8
    vectors = store.ndim == 2 and store.dtype in FLOATS  # the dtypes that torch has, in native byte order
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
            f"offsets must run from 0 to the number of instances ({len(index)}) and have one entry more than bags"
        )
    empty = np.flatnonzero(np.diff(offsets) <= 0)
    if len(empty):
        raise InputError(f"bag {empty[0]} is empty: leave it out or give it at least one instance")
    outside = np.flatnonzero((index < 0) | (index >= stored))
    if len(outside):
        bag = np.searchsorted(offsets, outside[0], side="right") - 1
        raise InputError(
            f"bag {bag}, instance {outside[0] - offsets[bag]} points to position {index[outside[0]]}: "
            f"positions in this store run from 0 to {stored - 1}"
        )


def check_lengths(columns: Mapping[str, Any], expected: int, unit: str) -> None:
    for what, values in columns.items():
        if values is None:
            continue
        if not is_sized(values):
            raise InputError(f"{what}: {reprlib.repr(values)} is not a column: give a list or an array, one per {unit}")
        if len(values) != expected:
            raise InputError(f"{expected} {unit}s but {len(values)} {what}: give one per {unit}")


def is_sized(values: Any) -> bool:
    """Whether this is a list, an array or the like, and no text and no single value."""
    sized = hasattr(values, "__len__") and hasattr(values, "__iter__") and getattr(values, "ndim", 1) > 0
    return sized and not isinstance(values, str | bytes | dict)


def check_coordinates(coordinates: np.ndarray | None) -> None:
    if coordinates is None:
        return
    if coordinates.shape[1:] != (2,):
        raise InputError(f"coordinates have shape {coordinates.shape}: give one (x, y) per instance")
    if coordinates.dtype.kind not in "iuf":
        raise InputError(f"coordinates have dtype {coordinates.dtype}: give numbers")
    if not (np.abs(coordinates.astype(np.float64, copy=False)) <= LARGEST_COORDINATE).all():  # also refuses NaN
        raise InputError(f"a coordinate is NaN or beyond ±{LARGEST_COORDINATE:,}: correct it, or give no coordinates")


def as_weights(weights: Any, describe: Callable[[int], str]) -> np.ndarray:  # (n,) float64
    """`describe` names the instance of a wrong weight."""
    column = as_array(weights)
    if column.ndim != 1 or column.dtype.kind not in "iuf":
        found = f"weights have shape {column.shape} and dtype {column.dtype}"
        raise InputError(f"{found}: give one number per instance, above 0")
    values = column.astype(np.float64)
    wrong = np.flatnonzero(~is_weight(values))
    if len(wrong):
        what = f"{describe(int(wrong[0]))} has weight {values[wrong[0]]:g}"
        raise InputError(f"{what}: {WEIGHT_CURE}")
    return values


def is_weight(values: np.ndarray) -> np.ndarray:  # (n,) -> (n,)
    return (values >= 1 / LARGEST_WEIGHT) & (values <= LARGEST_WEIGHT)  # also refuses NaN


def needs_double(largest: np.ndarray, deviations: np.ndarray) -> bool:
    """Return whether float32 is too coarse for one of these columns, as it is for seconds since 1970.

    >>> needs_double(np.array([1.7e9, 1.0]), np.array([30.0, 0.5])), needs_double(np.array([9e3]), np.array([10.0]))
    (True, False)
    """
    with np.errstate(all="ignore"):  # NaN and infinity are reported elsewhere
        steps = np.spacing(np.abs(largest).astype(np.float32))
        return bool((steps > FINE_STEP * deviations)[deviations > 0].any())


def non_finite_rows(rows: np.ndarray) -> np.ndarray:  # (n, d) -> (n,)
    """Return which rows hold NaN, infinity, or a number beyond LARGEST_FEATURE."""
    largest = np.float32(LARGEST_FEATURE)
    return np.logical_not(((rows >= -largest) & (rows <= largest)).all(axis=1))


def find_non_finite(store: Store, index: np.ndarray) -> int | None:
    """Return the position of the first instance in the index that is not finite."""
    if store.dtype == np.uint8 or (isinstance(store, RowsOnDisk) and store.known_finite):
        return None
    start = 0
    for chunk in iterate_chunks(store, index):
        bad = np.flatnonzero(non_finite_rows(chunk))
        if len(bad):
            return int(start + bad[0])
        start += len(chunk)
    return None


def encode_labels(labels: Column, classes: Sequence[str], describe: Callable[[int], str]) -> np.ndarray:
    """Turn class names or class numbers into checked class numbers. `describe` names the place of a wrong label."""
    column = as_label_column(labels)
    repeated = [name for i, name in enumerate(classes) if name in classes[:i]]
    if repeated:
        raise InputError(f"class {repeated[0]} is named twice: give every class a different name")
    if np.issubdtype(column.dtype, np.integer):
        codes = column.astype(np.int64)
        wrong = np.flatnonzero((codes < 0) | (codes >= len(classes)))
    else:
        number = {name: i for i, name in enumerate(classes)}
        codes = np.array([number.get(str(label), -1) for label in column], dtype=np.int64)
        wrong = np.flatnonzero(codes < 0)
    if len(wrong):
        known = ", ".join(classes[:10]) + (", ..." if len(classes) > 10 else "")
        raise InputError(
            f"{describe(int(wrong[0]))} has label {column[wrong[0]]}, outside the {len(classes)} classes ({known}): "
            "correct the label or add its class"
        )
    return codes


def as_label_column(labels: Column) -> np.ndarray:
    """Return the labels as a 1D array of text or integers."""
    column = as_array(labels)
    if column.ndim != 1:
        raise InputError(f"labels have shape {column.shape}: give a 1D array, e.g. y.ravel()")
    if column.dtype.kind not in "UOiu":
        raise InputError(f"labels have dtype {column.dtype}: give class names (text) or class numbers (integers)")
    if column.dtype == object:
        odd = [label for label in column if not isinstance(label, str | int | np.integer)]
        if odd:
            raise InputError(f"labels hold {odd[0]}: give every bag and instance a class name or a class number")
    return column
