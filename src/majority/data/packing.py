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
    arrays: Sequence[np.ndarray],
    names: Column | None,
    instance_labels: Sequence[Column] | None,
    coordinates: Sequence[Column] | None,
    weights: Sequence[Column] | None = None,
) -> None:
    """Check that the arrays of all bags have one shape and dtype, and as many labels, coordinates, weights as rows."""
    if not arrays:
        raise InputError("no bags were given: pass at least one array of instances")
    per_bag = {"instance labels": instance_labels, "coordinates": coordinates, "weights": weights}
    for what, columns in per_bag.items():
        if columns is not None and not all(map(is_sized, columns)):
            raise InputError(f"{what}: give one list or array per bag")
    if names is not None and not is_sized(names):
        raise InputError(f"names: {names!r} is not a list: give one name per bag")
    shown_names = range(len(arrays)) if names is None else [*names, *range(len(names), len(arrays))]
    for i, (name, array) in enumerate(zip(shown_names, arrays, strict=False)):
        if array.ndim == 0 or len(array) == 0:
            raise InputError(f"bag {name} is empty: leave it out or give it at least one instance")
        if array.shape[1:] != arrays[0].shape[1:]:
            raise InputError(
                f"bag {name} has instances of shape {array.shape[1:]}, the bags before it "
                f"{arrays[0].shape[1:]}: all instances must have one shape"
            )
        if array.dtype != arrays[0].dtype:
            raise InputError(
                f"bag {name} has dtype {array.dtype}, the bags before it {arrays[0].dtype}: "
                "convert all bags to one dtype"
            )
        if instance_labels is not None:
            labels = len(instance_labels[i]) if len(instance_labels) > i else 0
            if labels != len(array):
                raise InputError(
                    f"bag {name} has {len(array)} instances and {labels} instance labels: give one label per instance"
                )
        if coordinates is not None and (len(coordinates) <= i or len(coordinates[i]) != len(array)):
            raise InputError(f"bag {name} needs one (x, y) for each of its {len(array)} instances")
        if weights is not None and (len(weights) <= i or len(weights[i]) != len(array)):
            raise InputError(f"bag {name} needs one weight for each of its {len(array)} instances")


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
