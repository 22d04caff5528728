"""Bags from what scikit-learn passes: rows, and on each row the label and the id of its bag."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_consistent_length, column_or_1d

from ..data.bags import Bags, check_not_only_together
from ..data.columns import find_missing
from ..data.labels import SEPARATOR, split_label
from ..data.validation import as_weights
from ..errors import InputError


def make_bags(rows: np.ndarray, codes: np.ndarray, names: list[str], groups: ArrayLike | None) -> Bags:
    if groups is not None:
        return Bags.from_table(rows, bag_ids(groups, len(rows)), np.asarray(names)[codes], names)
    return Bags(rows, np.arange(len(rows)), np.arange(len(rows) + 1), codes, names)


def make_special_bags(
    rows: np.ndarray, y: ArrayLike, second_labels: ArrayLike | None, groups: ArrayLike | None
) -> tuple[np.ndarray, Bags]:
    """The classes, and bags of which some have no label, one of several, or a runner-up."""
    ids = np.arange(len(rows)) if groups is None else bag_ids(groups, len(rows))
    names: dict[str, Any] = {}  # text -> class as the caller writes it
    columns = []
    for values in (y,) if second_labels is None else (y, second_labels):
        column = as_objects(values)
        check_consistent_length(rows, column)
        known = np.delete(np.arange(len(column)), _missing(column))
        texts = np.full(len(column), "", object)
        texts[known] = [str(value) for value in column[known].tolist()]
        for value in column[known].tolist():
            parts = split_label(value) if isinstance(value, str) else (value,)
            names |= {str(part): part for part in parts}
        columns.append(texts)
    classes = np.unique(np.array([*names.values()]))
    seconds = columns[1] if second_labels is not None else None
    labelled = [str(name) for name in classes.tolist()]
    bags = Bags.from_table(rows, ids, columns[0], labelled, second_labels=seconds)
    check_not_only_together(bags)
    return classes, bags


def is_special(y: ArrayLike) -> bool:
    """Whether labels are missing, or name several classes."""
    column = as_objects(y)
    if column.ndim != 1 or column.dtype.kind not in "OfU":
        return False
    texts = column.dtype.kind in "OU" and any(isinstance(text, str) and SEPARATOR in text for text in column)
    return texts or len(_missing(column)) > 0


def weights_of(bags: Bags, weights: ArrayLike) -> np.ndarray:  # (n,) in the order of the bags
    column = np.asarray(weights)
    check_consistent_length(bags.store, column)
    return as_weights(column, lambda row: f"row {row}")[bags.index]


def bag_ids(groups: ArrayLike, rows: int) -> np.ndarray:
    try:
        ids: np.ndarray = column_or_1d(groups)
    except (TypeError, ValueError):
        raise InputError("groups is not a column: give a list or a 1D array, the bag id of each row") from None
    if len(ids) != rows:
        raise InputError(f"{rows} rows but {len(ids)} groups: give the bag id of each row")
    refuse_missing(ids, "bag id")
    return ids.astype(str) if ids.dtype == object else ids


def refuse_missing(values: ArrayLike | None, what: str) -> None:
    if values is None:
        return  # scikit-learn has a message for a missing y
    column = np.asarray(values, dtype=object).ravel()
    if len(rows := find_missing(column)):
        raise InputError(f"row {rows[0]} has no {what} ({column[rows[0]]}): give every row the {what} of its bag")


def as_objects(values: ArrayLike) -> np.ndarray:
    """An array; of a list, an array of objects, in which NaN is not the text 'nan'."""
    return np.asarray(values) if hasattr(values, "dtype") else np.array(values, dtype=object)


def _missing(column: np.ndarray) -> np.ndarray:  # positions
    empty = [isinstance(value, str) and value == "" for value in column] if column.dtype.kind in "OU" else []
    return np.union1d(find_missing(column), np.flatnonzero(empty))
