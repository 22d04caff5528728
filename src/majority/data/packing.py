"""Lists of arrays, and tables with one row per instance, as the packed arrays of `Bags`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import InputError
from .validation import Column, as_sortable, find_missing, is_sized


def offsets_of(sizes: Sequence[int] | np.ndarray) -> np.ndarray:  # (b,) -> (b + 1,)
    return np.concatenate([[0], np.cumsum(sizes)])


def check_bag_arrays(
    arrays: Sequence[np.ndarray], names: Column | None, of_bags: Mapping[str, Sequence[Column] | None]
) -> None:
    """Check that the arrays of all bags have one shape and dtype, and that the columns `of_bags`, by what they hold,
    have as many entries in each bag."""
    if not arrays:
        raise InputError("no bags were given: pass at least one array of instances")
    if names is not None and not is_sized(names):
        raise InputError(f"names: {names!r} is not a list: give one name per bag")
    first = arrays[0]
    for i, array in enumerate(arrays):
        name = names[i] if names is not None and i < len(names) else i
        if array.ndim == 0 or len(array) == 0:
            raise InputError(f"bag {name} is empty: leave it out or give it at least one instance")
        for what, one, other in (("shape", array.shape[1:], first.shape[1:]), ("dtype", array.dtype, first.dtype)):
            if one != other:
                raise InputError(
                    f"bag {name} has instances of {what} {one}, the bags before it {other}: give all bags one {what}"
                )
    for what, columns in of_bags.items():
        if columns is None:
            continue
        if not all(map(is_sized, columns)):
            raise InputError(f"{what}: give one list or array per bag")
        found = [len(column) for column in columns] + [0] * (len(arrays) - len(columns))
        for i, (array, number) in enumerate(zip(arrays, found, strict=False)):
            if number != len(array):
                raise InputError(f"bag {i} has {len(array)} instances and {number} {what}: give one per instance")


@dataclass(frozen=True, eq=False)
class BagRows:
    """The rows of a table, grouped by bag. Bags are in the order of their first row."""

    index: np.ndarray  # (n,) rows, bag after bag
    offsets: np.ndarray  # (b + 1,)
    bag_of_row: np.ndarray  # (n,) the bag's number for each row of the table
    names: np.ndarray  # (b,)

    @property
    def first_rows(self) -> np.ndarray:  # (b,)
        return self.index[self.offsets[:-1]]


def group_rows(bag_ids: np.ndarray) -> BagRows:
    if bag_ids.ndim != 1:
        raise InputError(f"bag ids have shape {bag_ids.shape}: give one per row, in a list or a 1D array")
    if len(bag_ids) == 0:
        raise InputError("no rows were given: pass at least one instance")
    if len(rows := find_missing(bag_ids)):
        raise InputError(f"row {rows[0]} has no bag id ({bag_ids[rows[0]]}): fill it in, or leave the row out")
    names, first, which = np.unique(as_sortable(bag_ids), return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    bag_of_row = rank[which]
    offsets = offsets_of(np.bincount(bag_of_row))
    return BagRows(np.argsort(bag_of_row, kind="stable"), offsets, bag_of_row, names[order])


def check_one_value_per_bag(columns: Mapping[str, np.ndarray | None], bag_ids: np.ndarray, rows: BagRows) -> None:
    """Check that each column, such as the label, has a value on every row and the same one on all rows of a bag."""
    for what, values in columns.items():
        if values is None:
            continue
        if len(missing := find_missing(values)):
            row = missing[0]
            raise InputError(f"bag {bag_ids[row]} has no {what} (row {row}): fill it in, or leave the bag out")
        first = rows.first_rows[rows.bag_of_row]  # (n,) the first row of each row's bag
        differing = np.flatnonzero(values != values[first])
        if len(differing):
            row = differing[0]
            one, other = ("none" if values[i] == "" else values[i] for i in (first[row], row))
            raise InputError(
                f"bag {bag_ids[row]} has two {what}s, {one} (row {first[row]}) and {other} "
                f"(row {row}): all rows of a bag must have the same {what}"
            )
