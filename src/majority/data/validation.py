"""Checks of the arrays that make up Bags. Every message names the place of the problem and its cure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import InputError
from .columns import as_array
from .feature_files import FLOATS
from .stores import RowsOnDisk, Store, iterate_chunks

LARGEST_FEATURE = 1e30  # sums of many larger ones may be infinite as float32
LARGEST_COORDINATE = 2**53  # every whole number up to it is a float64
LARGEST_WEIGHT = 1e15  # and its inverse the smallest: sums stay exact enough to find the largest
WEIGHT_CURE = f"give a number above 0 (from {1 / LARGEST_WEIGHT:g} to {LARGEST_WEIGHT:g}), or leave the instance out"
FINE_STEP = 1e-3  # float32 steps of at most this share of a column's standard deviation do no harm


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
