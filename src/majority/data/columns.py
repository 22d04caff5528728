"""Columns as users pass them (lists, arrays, tensors, pandas columns), as arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypedDict

import numpy as np

from ..errors import InputError


class Column(Protocol):
    """A list, array, tensor or pandas column."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...

    def __getitem__(self, index: Any, /) -> Any: ...


class BagColumns(TypedDict, total=False):
    """What `Bags` may be given besides instances and labels."""

    second_labels: Column | None  # (b,) runners-up, if they are known
    instance_labels: Column | None  # (n,) evaluation only; "", None, NaN or -1: not known
    groups: Column | None  # (b,) such as patients or sites: a split keeps them together
    coordinates: Column | None  # (n, 2)
    names: Column | None  # (b,)
    weights: Column | None  # (n,) above 0, such as areas; None: all instances count the same


def as_array(values: Any) -> np.ndarray:
    """Return lists, pandas frames and columns, and tensors of any device as arrays."""
    if hasattr(values, "detach"):  # a tensor; numpy has no bfloat16
        values = values.detach().cpu()
        return (values.float() if str(values.dtype) == "torch.bfloat16" else values).numpy()
    return np.asarray(values)


def as_objects(values: Any) -> np.ndarray:
    """An array; of a list, an array of objects, in which NaN is not the text 'nan'."""
    return as_array(values if hasattr(values, "dtype") else np.array(values, dtype=object))


def as_integers(values: Column, what: str) -> np.ndarray:
    """`what` names the values in an error message."""
    array = as_array(values)
    if not np.issubdtype(array.dtype, np.integer) or array.ndim != 1:
        raise InputError(f"{what} has dtype {array.dtype} and shape {array.shape}: give a 1D array of integers")
    return array.astype(np.int64, copy=False)


def check_lengths(columns: Mapping[str, Any], expected: int, unit: str) -> None:
    for what, values in columns.items():
        if values is not None and len(values) != expected:
            raise InputError(f"{expected} {unit}s but {len(values)} {what}: give one per {unit}")


def take(values: np.ndarray | None, which: np.ndarray) -> np.ndarray | None:
    return None if values is None else values[which]


def find_missing(values: np.ndarray) -> np.ndarray:
    """Return the positions of None, NaN and other missing values."""
    import pandas as pd

    return np.flatnonzero(pd.isna(values))


def offsets_of(sizes: Sequence[int] | np.ndarray) -> np.ndarray:  # (b,) -> (b + 1,)
    return np.concatenate([[0], np.cumsum(sizes)])


@dataclass(frozen=True, eq=False)
class BagRows:
    """The rows of a table, grouped by bag. Bags are in the order of their first row."""

    index: np.ndarray  # (n,) rows, bag after bag
    offsets: np.ndarray  # (b + 1,)
    first: np.ndarray  # (n,) the first row of each row's bag
    names: np.ndarray  # (b,)


def group_rows(bag_ids: np.ndarray) -> BagRows:
    """
    >>> rows = group_rows(np.array(["q", "p", "q"]))
    >>> rows.index.tolist(), rows.offsets.tolist(), rows.names.tolist()
    ([0, 2, 1], [0, 2, 3], ['q', 'p'])
    """
    import pandas as pd

    if bag_ids.ndim != 1 or len(bag_ids) == 0:
        raise InputError(f"bag ids have shape {bag_ids.shape}: give one per row, and at least one row")
    if len(rows := find_missing(bag_ids)):
        raise InputError(f"row {rows[0]} has no bag id ({bag_ids[rows[0]]}): fill it in, or leave the row out")
    bag_of_row, names = pd.factorize(bag_ids)
    index, offsets = np.argsort(bag_of_row, kind="stable"), offsets_of(np.bincount(bag_of_row))
    return BagRows(index, offsets, index[offsets[:-1]][bag_of_row], np.asarray(names))


def one_per_bag(what: str, values: np.ndarray, bag_ids: np.ndarray, rows: BagRows) -> np.ndarray:  # (n,) -> (b,)
    """The value of each bag of a column, such as the label, which all rows of a bag must have."""
    missing = find_missing(values)
    if len(missing):
        raise InputError(
            f"bag {bag_ids[missing[0]]} has no {what} (row {missing[0]}): fill it in, or leave the bag out"
        )
    differing = np.flatnonzero(values != values[rows.first])
    if len(differing):
        row, first = differing[0], rows.first[differing[0]]
        found = " and ".join(f"{'none' if values[i] == '' else values[i]} (row {i})" for i in (first, row))
        raise InputError(f"bag {bag_ids[row]} has two {what}s, {found}: all rows of a bag must have the same {what}")
    return values[rows.index[rows.offsets[:-1]]]


def pack_instances(instances: Sequence[Any], names: Column | None) -> tuple[np.ndarray, np.ndarray]:
    """The instances of all bags in one array, and the offsets of the bags."""
    arrays = [as_array(bag) for bag in instances]
    if not arrays:
        raise InputError("no bags were given: pass at least one array of instances")
    check_lengths({"names": names}, len(arrays), "bag")
    for i, array in enumerate(arrays):
        name = i if names is None else names[i]
        if array.size == 0:
            raise InputError(f"bag {name} is empty: leave it out or give it at least one instance")
        one, other = ((each.shape[1:], str(each.dtype)) for each in (array, arrays[0]))
        if one != other:
            raise InputError(f"bag {name} has instances of shape and dtype {one}, others {other}: give all bags one")
    return np.concatenate(arrays), offsets_of([len(array) for array in arrays])


def pack_column(
    what: str, columns: Sequence[Column], offsets: np.ndarray, read: Callable[[Column], np.ndarray] = as_array
) -> np.ndarray:
    """The values of all bags in one column, one per instance."""
    check_lengths({what: columns}, len(offsets) - 1, "bag")
    arrays = [np.atleast_1d(read(column)) for column in columns]
    for i, (size, array) in enumerate(zip(np.diff(offsets), arrays, strict=True)):
        if len(array) != size:
            raise InputError(f"bag {i} has {size} instances and {len(array)} {what}: give one per instance")
    return np.concatenate(arrays)
