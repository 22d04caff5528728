"""Columns as users pass them (lists, arrays, tensors, pandas columns), as arrays."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..errors import InputError


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


def as_objects(values: Column) -> np.ndarray:
    """An array; of a list, an array of objects, in which NaN is not the text 'nan'."""
    return as_array(values if hasattr(values, "dtype") else np.array(values, dtype=object))


def as_integers(values: Column, what: str) -> np.ndarray:
    """`what` names the values in an error message."""
    array = as_array(values)
    if not np.issubdtype(array.dtype, np.integer) or array.ndim != 1:
        raise InputError(f"{what} has dtype {array.dtype} and shape {array.shape}: give a 1D array of integers")
    return array.astype(np.int64, copy=False)


def is_sized(values: Any) -> bool:
    """Whether this is a list, an array or the like, and no text and no single value."""
    sized = hasattr(values, "__len__") and hasattr(values, "__iter__") and getattr(values, "ndim", 1) > 0
    return sized and not isinstance(values, str | bytes | dict)


def check_lengths(columns: Mapping[str, Any], expected: int, unit: str) -> None:
    for what, values in columns.items():
        if values is None:
            continue
        if not is_sized(values):
            raise InputError(f"{what}: {reprlib.repr(values)} is not a column: give a list or an array, one per {unit}")
        if len(values) != expected:
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

    @property
    def first_rows(self) -> np.ndarray:  # (b,)
        return self.index[self.offsets[:-1]]


def group_rows(bag_ids: np.ndarray) -> BagRows:
    """
    >>> rows = group_rows(np.array(["q", "p", "q"]))
    >>> rows.index.tolist(), rows.offsets.tolist(), rows.names.tolist()
    ([0, 2, 1], [0, 2, 3], ['q', 'p'])
    """
    import pandas as pd

    if bag_ids.ndim != 1:
        raise InputError(f"bag ids have shape {bag_ids.shape}: give one per row, in a list or a 1D array")
    if len(bag_ids) == 0:
        raise InputError("no rows were given: pass at least one instance")
    if len(rows := find_missing(bag_ids)):
        raise InputError(f"row {rows[0]} has no bag id ({bag_ids[rows[0]]}): fill it in, or leave the row out")
    bag_of_row, names = pd.factorize(bag_ids)
    index, offsets = np.argsort(bag_of_row, kind="stable"), offsets_of(np.bincount(bag_of_row))
    return BagRows(index, offsets, index[offsets[:-1]][bag_of_row], np.asarray(names))


def check_one_value_per_bag(what: str, values: np.ndarray | None, bag_ids: np.ndarray, rows: BagRows) -> None:
    """Check that a column, such as the label, has a value on every row and the same one on all rows of a bag."""
    if values is None:
        return
    if len(missing := find_missing(values)):
        row = missing[0]
        raise InputError(f"bag {bag_ids[row]} has no {what} (row {row}): fill it in, or leave the bag out")
    differing = np.flatnonzero(values != values[rows.first])
    if len(differing):
        row = differing[0]
        first = rows.first[row]
        one, other = ("none" if values[i] == "" else values[i] for i in (first, row))
        raise InputError(
            f"bag {bag_ids[row]} has two {what}s, {one} (row {first}) and {other} "
            f"(row {row}): all rows of a bag must have the same {what}"
        )


def pack_arrays(instances: Sequence[Any], names: Column | None) -> tuple[np.ndarray, np.ndarray]:
    """The instances of all bags in one array, and the offsets of the bags."""
    arrays = [as_array(bag) for bag in instances]
    if not arrays:
        raise InputError("no bags were given: pass at least one array of instances")
    for i, array in enumerate(arrays):
        name = names[i] if names is not None and i < len(names) else i
        if array.ndim == 0 or len(array) == 0:
            raise InputError(f"bag {name} is empty: leave it out or give it at least one instance")
        for what, one, other in (
            ("shape", array.shape[1:], arrays[0].shape[1:]),
            ("dtype", array.dtype, arrays[0].dtype),
        ):
            if one != other:
                raise InputError(
                    f"bag {name} has instances of {what} {one}, the bags before it {other}: give all bags one {what}"
                )
    return np.concatenate(arrays), offsets_of([len(array) for array in arrays])


def pack_column(
    what: str, columns: Sequence[Column] | None, offsets: np.ndarray, read: Callable[[Column], np.ndarray] = as_array
) -> np.ndarray | None:
    """The values of all bags in one column, one per instance."""
    if columns is None:
        return None
    if not all(map(is_sized, columns)):
        raise InputError(f"{what}: give one list or array per bag")
    found = [len(column) for column in columns] + [0] * (len(offsets) - 1 - len(columns))
    for i, (size, number) in enumerate(zip(np.diff(offsets).tolist(), found, strict=False)):
        if number != size:
            raise InputError(f"bag {i} has {size} instances and {number} {what}: give one per instance")
    arrays = [read(column) for column in columns]
    kinds = {array.dtype.kind for array in arrays}
    if len(kinds) > 1 and kinds & {"U", "O"}:
        arrays = [array.astype(object) for array in arrays]
    return np.concatenate(arrays)
