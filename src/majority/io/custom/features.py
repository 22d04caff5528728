"""Which columns of a table are its features: numbers, and text with few values; and what each becomes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from ...data.column_encoder import ColumnEncoder, FeatureColumn
from ...data.validation import LARGEST_FEATURE, needs_double
from .findings import Findings, Problem, ProblemError, abbreviate_names
from .options import ReadOptions
from .tables import (
    NUMBERS,
    TEXT,
    as_numbers,
    as_text,
    closest_name,
    did_you_mean,
    look_alikes,
    other_content,
)

RESERVED = (*TEXT, *NUMBERS)  # columns with a meaning of their own
MIN_NUMBERS = 0.5  # a column with at least this share of numbers is a feature, and its other cells are mistakes
MAX_CATEGORIES = 20  # a column of text with more values is not a feature
MIN_ROWS = 10  # from this number of rows on, a column hardly numbers them or is constant within bags by chance


def read_features(
    frame: pd.DataFrame, path: Path, options: ReadOptions, findings: Findings
) -> tuple[np.ndarray, ColumnEncoder]:
    """The features (n, d), and how they were made of the columns.

    The dtype is float32, or float64 where float32 is too coarse, and always float64 for a classifier, whose training
    data may have needed it.
    """
    if options.encoder is not None:
        encoder = options.encoder
        for name in encoder.names:
            if name not in frame:
                guess, trained_on = did_you_mean(name, frame.columns), abbreviate_names(encoder.names)
                cure = f"the run was trained on {trained_on}; add the column"
                raise ProblemError(path, 1, f"there is no column {name}{guess}", cure)
    else:
        columns = _choose(frame, path, options, findings)
        encoder = ColumnEncoder(columns)
        findings.add(_doubtful(frame, columns, options))
    double = options.for_classifier or any(
        _needs_double(as_numbers(frame[column.name])) for column in encoder.columns if not column.categories
    )
    cells = (_cells(frame[column.name], column, path, findings) for column in encoder.columns)
    with np.errstate(over="ignore"):  # numbers that are too large are reported
        return encoder.encode(cells, len(frame), np.dtype(np.float64 if double else np.float32)), encoder


def _cells(column: pd.Series, feature: FeatureColumn, path: Path, findings: Findings) -> np.ndarray:
    """Text, or numbers with NaN where a cell is empty; other cells that are no usable number are problems."""
    if feature.categories:
        text = as_text(column)
        new = {*text.unique()} - {*feature.categories, ""}
        if new:
            shown = abbreviate_names(sorted(new))
            findings.warn(
                f"column {feature.name} has values that training did not have ({shown}): they are no category"
            )
        return text.to_numpy()
    numbers = as_numbers(column)
    usable = np.abs(numbers) <= LARGEST_FEATURE
    if feature.fill is not None:
        usable |= _empty(column)
    for row, cell in column[~usable].items():
        shown = (
            "empty, NaN or NA" if pd.isna(cell) or cell == "" else repr(cell) if isinstance(cell, str) else f"{cell}"
        )
        cure = f"write a finite number of up to ±{LARGEST_FEATURE:g}, or leave the row or the column out"
        findings.add_problem(path, row, f"feature {feature.name} is {shown}", cure)
    return numbers


def _empty(column: pd.Series) -> np.ndarray:  # (n,)
    return (column.isna() | (column == "")).to_numpy(bool)


def _needs_double(numbers: np.ndarray) -> bool:
    usable = numbers[np.abs(numbers) <= LARGEST_FEATURE]
    return len(usable) > 0 and needs_double(np.abs(usable).max(keepdims=True), usable.std(keepdims=True))


def _choose(frame: pd.DataFrame, path: Path, options: ReadOptions, findings: Findings) -> tuple[FeatureColumn, ...]:
    """The columns that are features: all that can be, or those of --features."""
    own = [name for name in frame.columns if name not in RESERVED]
    classes = {*frame["bag_label"]} if "bag_label" in frame else set()
    usable, unused, alike, rows = [], defaultdict(list), look_alikes(own), _rows_of_bags(frame)
    for name in options.features or own:
        if name not in frame or name in RESERVED:
            others = f"name other columns ({abbreviate_names(own) or 'none'}), those with a comma in quotes"
            what = "has a meaning of its own" if name in RESERVED else f"is not there{did_you_mean(name, own)}"
            raise ProblemError(path, 1, f"column {name} of --features {what}", others)
        feature = other_content(frame[name]) or _as_feature(frame[name], path)
        if isinstance(feature, FeatureColumn) and not options.features:
            if name in alike:  # labels as a feature would be the answer
                feature = f"it looks like the column {alike[name]}: rename it, or name the features with --features"
            elif (frame[name] == frame[name].iloc[0]).all():
                feature = "one value only"
            elif len(classes & {*feature.categories}) > 1:
                feature = "names of classes (if these are the classes of instances, rename it to label)"
            elif feature.categories and _identifies_bags(frame[name], rows):
                feature = "text that is the same in all rows of each bag"
        if isinstance(feature, FeatureColumn):
            usable.append(feature)
        elif options.features:
            raise ProblemError(path, 1, f"column {name} of --features contains {feature}", "leave it out")
        else:
            unused[feature].append(name)
    for reason, names in unused.items():
        columns = f"column {names[0]} is" if len(names) == 1 else f"columns {abbreviate_names(names)} are"
        findings.warn(f"{columns} not used: {reason}")
    if not usable:
        images = closest_name("path", own)
        cure = f"rename the column {images} to path, if it names images" if images else "add a column path"
        raise ProblemError(path, 1, "there are no features", f"{cure}, or add columns of numbers")
    return tuple(usable)


def _as_feature(column: pd.Series, path: Path) -> FeatureColumn | str:
    """A column of numbers or of text with few values; the reason why it is neither."""
    name, empty = str(column.name), _empty(column)
    if empty.all():
        return "nothing"
    numbers = as_numbers(column)
    is_number = np.isfinite(numbers)
    if pd.api.types.is_numeric_dtype(column) or is_number.sum() >= MIN_NUMBERS * (~empty).sum():
        return FeatureColumn(name, fill=float(np.median(numbers[is_number])) if empty.any() else None)
    values = as_text(column[~empty]).drop_duplicates()
    if values.str.contains(",").any() and values.str.fullmatch(r"[-+\d.,eE]+").all():
        cure = "write points for decimals and nothing for thousands: 1234.5, not 1,234.5, 1.234,5 or 1234,5"
        raise ProblemError(path, 1, f"column {name} has decimal commas or thousands separators", cure)
    if len(values) > MAX_CATEGORIES:
        return f"text with more than {MAX_CATEGORIES} different values"
    return FeatureColumn(name, tuple(sorted(values)))


def _rows_of_bags(frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:  # (n,), (b,)
    """The number of the bag of each row, and the first row of each bag."""
    which = pd.factorize(frame["bag"])[0]
    return which, np.unique(which, return_index=True)[1]


def _identifies_bags(column: pd.Series, rows: tuple[np.ndarray, np.ndarray]) -> bool:
    """Whether there is one value per bag, and not by chance: a network could memorise the labels from it."""
    which, first = rows
    values = pd.factorize(column)[0]
    if not (values == values[first][which]).all():
        return False
    others = np.delete(values, first)  # rows that could differ from the first of their bag
    return len(others) >= MIN_ROWS and bool((others != others[0]).any())


def _numbers_rows(values: np.ndarray) -> bool:
    """Whether whole numbers count the rows, or increase from row to row like an id."""
    if len(values) < MIN_ROWS or not (values == np.floor(values)).all():
        return False
    counts = np.ptp(values) == len(values) - 1 and len(np.unique(values)) == len(values)
    return bool(counts or (np.diff(values) > 0).all())


def _doubtful(frame: pd.DataFrame, columns: tuple[FeatureColumn, ...], options: ReadOptions) -> Iterator[Problem | str]:
    """Warnings about features that are probably none, and how cells became numbers."""
    numbers = [column.name for column in columns if not column.categories]
    ids = [name for name in numbers if _numbers_rows(as_numbers(frame[name]))]
    rows = _rows_of_bags(frame)
    constant = [name for name in numbers if _identifies_bags(frame[name], rows)]
    for names, what in ((ids, "number the rows"), (constant, "be the same in all rows of each bag")):
        if names and not options.features:
            yield (
                f"features that may {what} ({abbreviate_names(names)}), which says nothing about the class of an "
                "instance: remove them, or name the other features with --features"
            )
    for column in columns:
        if column.categories:
            values = abbreviate_names(column.categories)
            yield f"column {column.name} is text: each of its {len(column.categories)} values ({values}) is a feature"
    missing = [f"{column.name} ({_empty(frame[column.name]).sum():,})" for column in columns if column.fill is not None]
    if missing:
        shown = abbreviate_names(missing)
        yield f"empty cells of {shown} are filled with the median, and a further feature of each says where they are"
