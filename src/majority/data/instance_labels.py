"""Labels as users write them, as class numbers.

The true classes of instances are for evaluation only. The number of an instance's class is its position in
`true_classes`: first the classes that bags can have as their label, then those that only instances have. A classifier
cannot predict the latter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..errors import InputError
from .columns import Column, as_objects

UNKNOWN = -1


def read_labels(labels: Column) -> tuple[np.ndarray, np.ndarray]:
    """Which labels are known (n,), and all of them: integers, UNKNOWN if missing, or texts (objects), "" if missing.

    None, NaN and "" are missing.

    >>> known, values = read_labels([7, None, 9.0])
    >>> known.tolist(), values.tolist(), read_labels(["a", float("nan"), 1])[1].tolist()
    ([True, False, True], [7, -1, 9], ['a', '', '1'])
    """
    column = as_objects(labels)
    if column.ndim != 1:
        raise InputError(f"labels have shape {column.shape}: give a 1D array, e.g. y.ravel()")
    if column.dtype.kind in "iu":
        return np.ones(len(column), bool), column.astype(np.int64)
    import pandas as pd

    series = pd.Series(column, dtype=object)
    known = (series.notna() & (series != "")).to_numpy()
    found = series[known].convert_dtypes()  # integers with missing values are floats
    if pd.api.types.is_integer_dtype(found):
        numbers = np.full(len(column), UNKNOWN)
        numbers[known] = found.to_numpy(np.int64)
        return known, numbers
    odd = [label for label in found.unique() if not isinstance(label, str | int | np.integer)]
    if odd:
        raise InputError(f"labels hold {odd[0]}: give every bag and instance a class name or a class number")
    texts = np.full(len(column), "", object)
    texts[known] = [str(label) for label in found]
    return known, texts


def encode_labels(
    labels: Column, classes: Sequence[str], describe: Callable[[int], str], known: np.ndarray | None = None
) -> np.ndarray:
    """Turn class names or class numbers into checked class numbers, UNKNOWN where they are not `known` (None: all are).
    `describe` names the place of a wrong label."""
    repeated = [name for i, name in enumerate(classes) if name in classes[:i]]
    if repeated:
        raise InputError(f"class {repeated[0]} is named twice: give every class a different name")
    _, values = read_labels(labels)
    codes = values
    if values.dtype == object:
        number = {name: i for i, name in enumerate(classes)}
        codes = np.array([number.get(name, UNKNOWN) for name in values.tolist()], dtype=np.int64)
    is_known = np.ones(len(codes), bool) if known is None else known
    wrong = np.flatnonzero(is_known & ((codes < 0) | (codes >= len(classes))))
    if len(wrong):
        what = f"{describe(int(wrong[0]))} has label {values[wrong[0]]}, outside the {len(classes)} classes"
        raise InputError(f"{what} ({', '.join(classes[:10])}): correct the label or add its class")
    return np.where(is_known, codes, UNKNOWN)


def encode_instance_labels(
    labels: Column, classes: tuple[str, ...], numbers: bool, describe: Callable[[int], str]
) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """Return the numbers (n,), or None if no instance's class is known, and the true classes.

    Integers are class numbers if `numbers` is set, else names; -1 is unknown too, unless a class has that name.

    >>> encode_instance_labels(["dog", "", "cow", "cat"], ("cat", "dog"), False, str)
    (array([ 1, -1,  2,  0]), ('cat', 'dog', 'cow'))
    """
    known, values = read_labels(labels)
    integers = values.dtype != object
    if integers and (numbers or str(UNKNOWN) not in classes):
        known = known & (values != UNKNOWN)
    if not known.any():
        return None, classes
    if integers and numbers:
        return encode_labels(values, classes, describe, known), classes
    found, which = np.unique(values[known], return_inverse=True)
    names = _as_classes_are_written([str(name) for name in found.tolist()], classes)
    further = sorted(set(names) - set(classes))
    if not set(names) & set(classes) and len(further) > 1:  # a single name may be the background's
        found_names = f"instances are labelled ({', '.join(further[:5])}), bags ({', '.join(classes[:5])})"
        raise InputError(f"{found_names}: use the same names for both, or leave out the labels of instances")
    true_classes = (*classes, *further)
    codes = np.full(len(values), UNKNOWN)
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
