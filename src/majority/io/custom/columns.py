"""Which columns of a manifest are its features, and warnings about columns that are probably not features."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...data.validation import LARGEST_FEATURE, needs_double
from .findings import Findings, UnreadableError
from .look_alikes import check_feature_names, warn_of_look_alikes
from .names import MAX_NAMES, abbreviate_names, closest_name, did_you_mean, features_option
from .read_options import ReadOptions
from .tables import LEADING_ZEROS, as_numbers, describe_content, without_separators

TEXT = ("bag", "bag_label", "second_label", "path", "split", "group", "label")
RESERVED = (*TEXT, "x", "y", "weight")
MIN_NUMBERS = 0.5  # a column with at least this share of numbers is a feature, and its other cells are mistakes
FEW_NUMBERS = "too few numbers"
MIN_ID_ROWS = 10  # from this number of rows on, whole numbers hardly increase from row to row by chance
MAX_CHANCE = 1e-3  # a column with one value per bag is warned about if its probability by chance is below this


def read_features(
    frame: pd.DataFrame, path: Path, options: ReadOptions, findings: Findings
) -> tuple[np.ndarray, tuple[str, ...]]:
    """The features (n, d) and the names of their columns.

    The dtype is float32, or float64 where float32 is too coarse, and always float64 for a classifier, whose training
    data may have needed it.
    """
    others = [name for name in frame.columns if name not in RESERVED]
    if options.features:
        columns = _requested_columns(frame, path, options, options.features, others, findings)
        check_feature_names(list(frame.columns), RESERVED, [*columns], path, options, findings)
    else:
        columns = _number_columns(frame, path, options, others, findings)
        if not columns:
            images = closest_name("path", others)
            cure = "add a column path" if images is None else f"rename the column {images} to path, if it names images"
            findings.add_problem(path, 1, "there are no features", f"{cure}, or add columns of numbers")
    if not columns:
        raise UnreadableError
    numbers = np.stack(list(columns.values()), axis=1)  # (n, d)
    names = tuple(columns)
    numbers[np.abs(numbers) > LARGEST_FEATURE] = np.inf
    left_out = "row" if options.for_classifier else "row or the column"
    cure = f"write a finite number of up to ±{LARGEST_FEATURE:g}, or leave the {left_out} out"
    _check_finite(frame, path, names, ~np.isfinite(numbers), cure, findings)
    with np.errstate(all="ignore"):  # infinite values were reported above
        double = options.for_classifier or needs_double(np.abs(numbers).max(axis=0), numbers.std(axis=0))
    return numbers.astype(np.float64 if double else np.float32), names


def _check_finite(
    frame: pd.DataFrame, path: Path, names: tuple[str, ...], bad: np.ndarray, cure: str, findings: Findings
) -> None:
    """Add a problem for each row with bad cells (n, d); it names the first of them."""
    rows = np.flatnonzero(bad.any(axis=1))
    first, more = bad[rows].argmax(axis=1), bad[rows].sum(axis=1) - 1
    cells = np.empty(len(rows), object)
    for column in np.unique(first):
        cells[first == column] = frame[names[column]].iloc[rows[first == column]].to_numpy(object)
    for row, column, cell, others in zip(frame.index[rows], first, cells, more, strict=True):
        what = f"feature {names[column]} is {_shown(cell)}" + (f" (and {others} more in this row)" if others else "")
        findings.add_problem(path, row, what, cure)


def _shown(cell: Any) -> str:
    return f"{cell!r}" if isinstance(cell, str) else "empty, NaN or NA" if pd.isna(cell) else f"{cell}"


def _share_of_numbers(column: pd.Series, numbers: np.ndarray) -> str:
    """How many cells of a column are numbers, and an example of the others."""
    are_numbers = np.isfinite(numbers)
    others = column[~are_numbers]
    examples = others if others.isna().all() else others.dropna()
    share = f"{are_numbers.sum():,} of {len(column):,} cells"
    return f"numbers in {share}, row {examples.index[0]} is {_shown(examples.iloc[0])}"


def _describe_unused(column: pd.Series, numbers: np.ndarray) -> str:
    return FEW_NUMBERS if np.isfinite(numbers).any() else describe_content(column)


def warn_of_unused_columns(frame: pd.DataFrame, options: ReadOptions, findings: Findings) -> None:
    """Warn of columns that a manifest of images does not need."""
    reported = warn_of_look_alikes(frame.columns, RESERVED, options, findings)
    others = [name for name in frame.columns if name not in (*RESERVED, *reported)]
    if others:
        findings.warn(f"{_columns_are(others)} not used: the instances are the images of the column path")


def _columns_are(names: Sequence[str]) -> str:
    return f"column {names[0]} is" if len(names) == 1 else f"columns {abbreviate_names(names)} are"


def _requested_columns(
    frame: pd.DataFrame,
    path: Path,
    options: ReadOptions,
    requested: tuple[str, ...],
    others: list[str],
    findings: Findings,
) -> dict[str, np.ndarray]:
    """The columns that --features names, or that a classifier was trained on."""
    columns, wanted = {}, set(requested)
    unused = [name for name in others if name not in wanted]
    for name in requested:
        if name in RESERVED:
            what = f"column {name} has a special meaning"
        elif name not in frame:
            what = f"there is no column {name}{did_you_mean(name, unused)}"
        elif not _has_numbers(numbers := _read_numbers(frame, name, path, findings)):
            what = f"column {name} contains {_describe_unused(frame[name], numbers)}"
            if np.isfinite(numbers).any():
                what += f" ({_share_of_numbers(frame[name], numbers)})"
        else:
            columns[name] = numbers
            continue
        if options.for_classifier:
            cure = "write numbers into it" if name in frame else "add the column"
            trained_on = f"the run was trained on {abbreviate_names(requested)}"
            findings.add_problem(path, 1, what, f"{trained_on}; {cure}")
        else:
            rest = abbreviate_names([other for other in others if other != name]) or "none"
            with_comma = [other for other in unused if name in map(str.strip, other.split(","))]
            quotes = f"put quotes around a name with a comma: {features_option(with_comma)}"
            cure = quotes if with_comma else f"name other columns ({rest})"
            findings.add_problem(path, 1, f"{what}, but --features names it", cure)
    return columns


def _number_columns(
    frame: pd.DataFrame, path: Path, options: ReadOptions, others: list[str], findings: Findings
) -> dict[str, np.ndarray]:
    """All other columns of numbers, including those with a few cells that are not numbers: these cells are problems."""
    columns, id_columns, unused = {}, [], defaultdict(list)
    with_zeros = set(frame.attrs.get(LEADING_ZEROS, ()))
    for name in others:
        numbers = _read_numbers(frame, name, path, findings)
        if not _has_numbers(numbers):
            unused[_describe_unused(frame[name], numbers)].append(name)
            continue
        columns[name] = numbers
        reason = _id_reason(numbers) or ("has leading zeros like a code" if name in with_zeros else None)
        if reason:
            id_columns.append(name)
            findings.warn(
                f"column {name} {reason} but is used as a feature: remove it, or choose the features with --features"
            )
    reported = check_feature_names(list(frame.columns), RESERVED, [*columns], path, options, findings)
    for content, of_content in unused.items():
        names = [name for name in of_content if name not in reported]
        if not names:
            continue
        images = closest_name("path", names)
        cure = "" if images is None or not columns else f" (if {images} names images, rename it to path)"
        contain = "it contains" if len(names) == 1 else "they contain"
        if content == FEW_NUMBERS:
            content += f" ({names[0]}: {_share_of_numbers(frame[names[0]], as_numbers(frame[names[0]]))})"
        findings.warn(f"{_columns_are(names)} not used: {contain} {content}{cure}")
    constant = _constant_within_bags(columns, frame["bag"])
    if constant:
        left_out = {*constant, *id_columns}
        rest = [name for name in columns if name not in left_out]
        them = "it" if len(constant) == 1 else "them"
        option = features_option(rest) if 0 < len(rest) <= MAX_NAMES else "--features"
        findings.warn(
            f"{_columns_are(constant)} the same in all rows of each bag, which identifies the bag but not the class "
            f"of an instance: remove {them}, or name the other features with {option}"
        )
    return columns


def _id_reason(numbers: np.ndarray) -> str | None:
    """Why a column is probably a row number or an id; None if it is not.

    Ids with gaps are recognised only if they are sorted, because other whole numbers may be unique too.
    """
    rows = len(numbers) > 1 and np.ptp(numbers) == len(numbers) - 1  # sorting takes much longer
    if rows and (np.diff(np.sort(numbers)) == 1).all():  # also if the rows were shuffled
        return "numbers the rows"
    if len(numbers) >= MIN_ID_ROWS and (numbers == np.floor(numbers)).all() and (numbers[1:] > numbers[:-1]).all():
        return "increases from row to row like an id"
    return None


def _read_numbers(frame: pd.DataFrame, name: str, path: Path, findings: Findings) -> np.ndarray:
    """The numbers of a column. Separators in them are a problem, but are read, so that other problems are found too."""
    column = frame[name]
    plain = without_separators(column)
    if plain is not None:
        cure = "write points for decimals and nothing for thousands: 1234.5, not 1,234.5, 1.234,5 or 1234,5"
        findings.add_problem(path, 1, f"column {name} has decimal commas or thousands separators", cure)
    return as_numbers(column if plain is None else plain)


def _has_numbers(numbers: np.ndarray) -> bool:
    return bool(np.isfinite(numbers).mean() >= MIN_NUMBERS)


def _constant_within_bags(columns: dict[str, np.ndarray], bag: pd.Series) -> list[str]:
    """Features that have one value per bag, and not by chance: a network could memorise the labels from them."""
    which = pd.factorize(bag)[0]
    first = np.unique(which, return_index=True)[1]  # (b,) the first row of each bag
    repetitions = len(which) - len(first)  # rows that could differ from the first row of their bag

    def chance(numbers: np.ndarray) -> float:  # an upper bound
        return float((np.unique(numbers, return_counts=True)[1].max() / len(numbers)) ** repetitions)

    return [
        name
        for name, numbers in columns.items()
        if (numbers == numbers[first][which]).all() and chance(numbers) < MAX_CHANCE
    ]
