"""True classes of instances, for figures alone: which are known, and their numbers.

An instance's number is its place among `true_classes`: the classes that bags can have as their label, then those
that only instances have. A classifier cannot answer the latter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from ..errors import InputError
from .validation import as_array, encode, label_column

UNKNOWN = -1


def as_label_column(labels: Sequence) -> np.ndarray:
    """As an array that tells what is missing from the text 'nan'."""
    column = as_array(labels)
    mixed = column.dtype.kind == "U" and not hasattr(labels, "dtype")
    return np.array(labels, dtype=object) if mixed else column


def joined(columns: Sequence[Sequence]) -> np.ndarray:
    """The labels of several bags in one column."""
    columns = [as_label_column(column) for column in columns]
    alike = len({column.dtype.kind for column in columns}) == 1
    return np.concatenate(columns if alike else [column.astype(object) for column in columns])


def encode_instance_labels(
    labels: Sequence, classes: tuple[str, ...], numbers: bool, where: Callable[[int], str]
) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """(n,) numbers, None where no instance's class is known, and the true classes.

    Empty text, None and NaN are unknown. Whole numbers are class numbers where `numbers` says so, else names; -1
    is unknown too, unless it is the name of a class.

    >>> number_truth(["dog", "", "cow", "cat"], ("cat", "dog"), False, str)
    (array([ 1, -1,  2,  0]), ('cat', 'dog', 'cow'))
    """
    known, values = _read(labels)
    whole = values.dtype.kind in "iu"
    if whole and (numbers or str(UNKNOWN) not in classes):
        known = known & (values != UNKNOWN)
    if not known.any():
        return None, classes
    codes = np.full(len(values), UNKNOWN, np.int64)
    if whole and numbers:
        codes[known] = encode(values[known], classes, lambda i: where(np.flatnonzero(known)[i]))
        return codes, classes
    which, names = pd.factorize(values[known])
    names = _as_written([str(name) for name in names], classes)
    further = sorted(set(names) - set(classes))
    if not set(names) & set(classes) and len(further) > 1:  # one alone may be the background's
        shown = [", ".join(some[:5]) + (", ..." if len(some) > 5 else "") for some in (further, classes)]
        raise InputError(
            f"the labels of instances ({shown[0]}) and the classes of bags ({shown[1]}) share no name: write both "
            "alike, or leave the labels of instances out"
        )
    true_classes = (*classes, *further)
    codes[known] = np.array([true_classes.index(name) for name in names])[which]
    return codes, true_classes


def _as_written(names: list[str], classes: tuple[str, ...]) -> list[str]:
    """Tables with gaps write whole numbers as 1.0: as the classes are written, where those are whole.

    >>> _as_written(["1.0", "0.0", "2.0"], ("0", "1"))
    ['1', '0', '2']
    """
    whole = {name: name.removesuffix(".0") for name in names if name not in classes}
    return [whole.get(name, name) for name in names] if set(whole.values()) & set(classes) else names


def renumber(codes: np.ndarray | None, before: tuple[str, ...], after: tuple[str, ...]) -> np.ndarray | None:
    """The same classes by their places in another list that holds them."""
    if codes is None or before == after[: len(before)]:
        return codes
    return np.array([*(after.index(name) for name in before), UNKNOWN])[codes]  # UNKNOWN, the last, stays itself


def _read(labels: Sequence) -> tuple[np.ndarray, np.ndarray]:
    """Which are known (n,), and all of them as whole numbers, text or objects (n,)."""
    column = as_label_column(labels)
    if column.ndim == 1 and column.dtype == object:
        missing = pd.isna(column)
        known = ~missing & (np.where(missing, "", column) != "")
        kind = pd.api.types.infer_dtype(column[known], skipna=False)
        if kind == "integer":
            return known, np.where(known, column, UNKNOWN).astype(np.int64)
        if kind in ("string", "empty"):
            return known, column
        if kind not in ("floating", "mixed-integer-float"):
            label_column(column[known])  # which names what is neither text nor a whole number
            return known, column
        column = np.where(known, column, np.nan).astype(float)
    if column.ndim == 1 and column.dtype.kind == "f":  # what pandas makes of whole numbers with gaps
        known = ~np.isnan(column)
        if (column[known] % 1 == 0).all():
            return known, np.where(known, column, UNKNOWN).astype(np.int64)
    column = label_column(column)
    return (column != "") if column.dtype.kind == "U" else np.ones(len(column), bool), column
