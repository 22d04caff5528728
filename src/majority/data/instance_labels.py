"""True classes of instances, for evaluation only: which are known, and their numbers.

The number of an instance's class is its position in `true_classes`: first the classes that bags can have as their
label, then those that only instances have. A classifier cannot predict the latter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..errors import InputError
from .validation import Column, as_array, as_label_column, encode_labels

UNKNOWN = -1


def as_instance_label_array(labels: Column) -> np.ndarray:
    """Return an array in which missing values differ from the text 'nan'."""
    column = as_array(labels)
    from_list = column.dtype.kind == "U" and not hasattr(labels, "dtype")
    return np.array(labels, dtype=object) if from_list else column


def concatenate_labels(labels_per_bag: Sequence[Column]) -> np.ndarray:
    """Return the labels of several bags in one column."""
    columns = [as_instance_label_array(labels) for labels in labels_per_bag]
    same_kind = len({column.dtype.kind for column in columns}) == 1
    return np.concatenate(columns if same_kind else [column.astype(object) for column in columns])


def encode_instance_labels(
    labels: Column, classes: tuple[str, ...], numbers: bool, describe: Callable[[int], str]
) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """Return the numbers (n,), or None if no instance's class is known, and the true classes.

    Empty text, None and NaN are unknown. Integers are class numbers if `numbers` is set, else names; -1 is unknown
    too, unless a class has that name.

    >>> encode_instance_labels(["dog", "", "cow", "cat"], ("cat", "dog"), False, str)
    (array([ 1, -1,  2,  0]), ('cat', 'dog', 'cow'))
    """
    known, values = find_known(labels)
    integers = values.dtype.kind in "iu"
    if integers and (numbers or str(UNKNOWN) not in classes):
        known = known & (values != UNKNOWN)
    if not known.any():
        return None, classes
    codes = np.full(len(values), UNKNOWN, np.int64)
    if integers and numbers:
        positions = np.flatnonzero(known)
        codes[known] = encode_labels(values[known], classes, lambda i: describe(int(positions[i])))
        return codes, classes
    import pandas as pd

    which, found = pd.factorize(values[known])
    names = _as_classes_are_written([str(name) for name in found], classes)
    further = sorted(set(names) - set(classes))
    if not set(names) & set(classes) and len(further) > 1:  # a single name may be the background's
        shown = [", ".join(some[:5]) + (", ..." if len(some) > 5 else "") for some in (further, classes)]
        raise InputError(
            f"the labels of instances ({shown[0]}) and the classes of bags ({shown[1]}) share no name: use the same "
            "names for both, or leave out the labels of instances"
        )
    true_classes = (*classes, *further)
    codes[known] = np.array([true_classes.index(name) for name in names])[which]
    return codes, true_classes


def _as_classes_are_written(names: list[str], classes: tuple[str, ...]) -> list[str]:
    """Drop the ".0" that tables with missing cells add to integers, if the classes have none.

    >>> _as_classes_are_written(["1.0", "0.0", "2.0"], ("0", "1"))
    ['1', '0', '2']
    """
    shortened = {name: name.removesuffix(".0") for name in names if name not in classes}
    return [shortened.get(name, name) for name in names] if set(shortened.values()) & set(classes) else names


def none_if_unknown(codes: np.ndarray | None) -> np.ndarray | None:
    """The same numbers; None if no class is known."""
    return None if codes is None or (codes == UNKNOWN).all() else codes


def renumber(codes: np.ndarray | None, before: tuple[str, ...], after: tuple[str, ...]) -> np.ndarray | None:
    """Return the numbers of the same classes in another list that contains them."""
    if codes is None or before == after[: len(before)]:
        return codes
    return np.array([*(after.index(name) for name in before), UNKNOWN])[codes]  # index -1, the last, is UNKNOWN


def find_known(labels: Column) -> tuple[np.ndarray, np.ndarray]:
    """Return which labels are known (n,), and all labels as integers, text or objects (n,)."""
    column = as_instance_label_array(labels)
    if column.ndim == 1 and column.dtype.kind in "Of":
        import pandas as pd

        series = pd.Series(column)
        known = (series.notna() & (series != "")).to_numpy()
        found = series[known].convert_dtypes()  # pandas turns integers with missing values into floats
        if not pd.api.types.is_integer_dtype(found):
            as_label_column(found.to_numpy())  # raises if a label is neither text nor an integer
            return known, column.astype(object)
        column = np.full(len(series), UNKNOWN, np.int64)
        column[known] = found.to_numpy(np.int64)
        return known, column
    column = as_label_column(column)
    return (column != "") if column.dtype.kind == "U" else np.ones(len(column), bool), column
