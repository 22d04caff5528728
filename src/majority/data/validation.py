"""Checks of the arrays that make up Bags. Every message names the place of the problem and its cure."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..errors import InputError
from .columns import Column, as_array
from .feature_files import FLOATS
from .stores import Store, iterate_chunks

LARGEST_FEATURE = 1e30  # sums of many larger ones may be infinite as float32
LARGEST_COORDINATE = 2**53  # every whole number up to it is a float64
LARGEST_WEIGHT = 1e15  # and its inverse the smallest: sums stay exact enough to find the largest
WEIGHT_CURE = f"give a number above 0 (from {1 / LARGEST_WEIGHT:g} to {LARGEST_WEIGHT:g}), or leave the instance out"
FINE_STEP = 1e-3  # float32 steps of at most this share of a column's standard deviation do no harm


def check_store(store: Store) -> None:
    images = store.ndim == 4 and store.dtype == np.uint8 and store.shape[3] in (1, 3)
    vectors = store.ndim == 2 and store.dtype in FLOATS  # the dtypes that torch has, in native byte order
    if not (images or vectors) or 0 in store.shape[1:]:
        raise InputError(
            f"instances have shape {store.shape[1:]} and dtype {store.dtype}: give images as uint8 "
            "(n, height, width, 1 or 3) or vectors as float16, float32 or float64 (n, d), e.g. X.astype('float32')"
        )


def check_positions(index: np.ndarray, offsets: np.ndarray, stored: int) -> None:
    if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != len(index):
        raise InputError(f"offsets must run from 0 to {len(index)}, the number of instances: give at least one bag")
    empty = np.flatnonzero(np.diff(offsets) <= 0)
    if len(empty):
        raise InputError(f"bag {empty[0]} is empty: leave it out or give it at least one instance")
    outside = np.flatnonzero((index < 0) | (index >= stored))
    if len(outside):
        bag = np.searchsorted(offsets, outside[0], side="right") - 1
        place = f"bag {bag}, instance {outside[0] - offsets[bag]} points to position {index[outside[0]]}"
        raise InputError(f"{place}: positions in this store run from 0 to {stored - 1}")


def check_coordinates(coordinates: np.ndarray) -> np.ndarray:  # (n, 2)
    are_numbers = coordinates.shape[1:] == (2,) and coordinates.dtype.kind in "iuf"
    if not are_numbers or not (np.abs(coordinates.astype(np.float64)) <= LARGEST_COORDINATE).all():  # also refuses NaN
        found = f"coordinates have shape {coordinates.shape} and dtype {coordinates.dtype}"
        raise InputError(f"{found}: give one (x, y) per instance, numbers up to ±{LARGEST_COORDINATE:,}")
    return coordinates


def as_weights(weights: Column, describe: Callable[[int], str]) -> np.ndarray:  # (n,) float64
    """`describe` names the instance of a wrong weight."""
    column = as_array(weights)
    if column.ndim != 1 or column.dtype.kind not in "iuf":
        raise InputError(f"weights have shape {column.shape} and dtype {column.dtype}: give one number per instance")
    values = column.astype(np.float64)
    wrong = np.flatnonzero(~is_weight(values))
    if len(wrong):
        raise InputError(f"{describe(int(wrong[0]))} has weight {values[wrong[0]]:g}: {WEIGHT_CURE}")
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


def check_finite(store: Store, index: np.ndarray, describe: Callable[[int], str]) -> None:
    """`describe` names the instance of a wrong number."""
    if store.dtype == np.uint8:
        return
    start = 0
    for chunk in iterate_chunks(store, index):
        bad = non_finite_rows(chunk)
        if bad.any():
            place, limit = describe(start + int(np.argmax(bad))), f"a number beyond ±{LARGEST_FEATURE:g}"
            raise InputError(f"{place} holds NaN or infinity, or {limit}: correct or leave out that instance")
        start += len(chunk)
