"""Which columns of a manifest are its features: numbers, and what speaks against some of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from ...data.validation import needs_double
from .findings import Findings, UnreadableError
from .names import SHOWN, closest_name, did_you_mean, features_option, shown_names
from .request import ReadOptions
from .tables import CODES, as_numbers, separators, what_it_holds

TEXT = ("bag", "bag_label", "path", "split", "group", "label")
RESERVED = (*TEXT, "x", "y")
MOSTLY = 0.5  # share of number cells from which a column is taken for numbers with mistakes in it
SORTED = 10  # rows from which whole numbers hardly grow by chance from each to the next
BY_CHANCE = 1e-3  # a column of one value a bag is warned of where this is less likely by chance


def read_features(frame: pd.DataFrame, path: Path, wish: ReadOptions, findings: Findings):
    """(n, d) and the columns' names; float32, or float64 where that is too coarse, or perhaps was in training."""
    others = [name for name in frame if name not in RESERVED]
    if wish.features:
        columns = _named(frame, path, wish, others, findings)
    else:
        columns = _numeric(frame, path, others, findings)
        if not columns:
            images = closest_name("path", others)
            cure = "add a column path" if images is None else f"call the column {images} path, if it names images"
            findings.problem(path, 1, "there are no features", f"{cure}, or add columns of numbers")
    if not columns:
        raise UnreadableError
    numbers = np.stack(list(columns.values()), axis=1)  # (n, d)
    names = tuple(columns)
    numbers[np.abs(numbers) > np.finfo(np.float32).max] = np.inf
    cure = f"write a finite number, or leave the row {'' if wish.of_run else 'or the column '}out"
    _check_finite(frame, path, names, ~np.isfinite(numbers), cure, findings)
    with np.errstate(all="ignore"):  # of what is not finite
        double = wish.of_run or needs_double(np.abs(numbers).max(axis=0), numbers.std(axis=0))
    return numbers.astype(np.float64 if double else np.float32), names


def _check_finite(
    frame: pd.DataFrame, path: Path, names: tuple[str, ...], bad: np.ndarray, cure: str, findings: Findings
) -> None:
    """A problem for each row with bad cells (n, d), in the words of its first one."""
    rows = np.flatnonzero(bad.any(axis=1))
    first, more = bad[rows].argmax(axis=1), bad[rows].sum(axis=1) - 1
    cells = np.empty(len(rows), object)
    for column in np.unique(first):
        cells[first == column] = frame[names[column]].iloc[rows[first == column]].to_numpy(object)
    for row, column, cell, others in zip(frame.index[rows], first, cells, more, strict=True):
        shown = "empty or NaN" if pd.isna(cell) else f"{cell!r}" if isinstance(cell, str) else f"{cell}"
        what = f"feature {names[column]} is {shown}" + (f" (and {others} more of the row)" if others else "")
        findings.problem(path, row, what, cure)


def note_unused(frame: pd.DataFrame, findings: Findings) -> None:
    """Of a manifest of images: columns that have no meaning."""
    others = [name for name in frame if name not in RESERVED]
    if others:
        findings.warn(f"{_columns(others)} not used: the instances are the images of the column path")


def _columns(names: Sequence[str]) -> str:
    return f"column {names[0]} is" if len(names) == 1 else f"columns {shown_names(names)} are"


def _named(
    frame: pd.DataFrame, path: Path, wish: ReadOptions, others: list[str], findings: Findings
) -> dict[str, np.ndarray]:
    """The columns that an option asks for, or that a run was trained on."""
    columns, free = {}, [name for name in others if name not in wish.features]
    for name in wish.features:
        if name in RESERVED:
            why = f"column {name} has a meaning of its own"
        elif name not in frame:
            why = f"there is no column {name}{did_you_mean(name, free)}"
        elif not _mostly_numbers(numbers := _numbers(frame, name, path, findings)):
            why = f"column {name} holds {what_it_holds(frame[name])}"
        else:
            columns[name] = numbers
            continue
        if wish.of_run:
            mend = "write numbers into it" if name in frame else "add the column"
            findings.problem(path, 1, why, f"the run was trained on {shown_names(wish.features)}; {mend}")
        else:
            rest = shown_names([other for other in others if other != name]) or "none"
            parted = [other for other in free if name in map(str.strip, other.split(","))]
            quoted = f"a name with a comma stands in quotes: {features_option(parted)}"
            cure = quoted if parted else f"name other columns ({rest})"
            findings.problem(path, 1, f"{why}, asked for as a feature", cure)
    return columns


def _numeric(frame: pd.DataFrame, path: Path, others: Iterable[str], findings: Findings) -> dict[str, np.ndarray]:
    """All other columns of numbers; one that is mostly numbers counts, and its other cells are problems."""
    columns, numbering, unused = {}, [], defaultdict(list)
    for name in others:
        numbers = _numbers(frame, name, path, findings)
        if not _mostly_numbers(numbers):
            unused[what_it_holds(frame[name])].append(name)
            continue
        columns[name] = numbers
        coded = "is written with leading zeros, as a code is," if name in frame.attrs.get(CODES, ()) else None
        if how := _numbering(numbers) or coded:
            numbering.append(name)
            findings.warn(f"column {name} {how} and is taken as a feature: remove it, or name --features")
    for holds, names in unused.items():
        images = closest_name("path", names)
        cure = "" if images is None or not columns else f" (if {images} names images, call it path)"
        findings.warn(f"{_columns(names)} not used: {'it holds' if len(names) == 1 else 'they hold'} {holds}{cure}")
    telling = _telling_bags(columns, frame["bag"])
    if telling:
        rest = [name for name in columns if name not in (*telling, *numbering)]
        named = features_option(rest) if 0 < len(rest) <= SHOWN else "--features"
        findings.warn(
            f"{_columns(telling)} the same in all rows of each bag, which tells the bag but not an instance's class: "
            f"remove, or name the other features with {named}"
        )
    return columns


def _numbering(numbers: np.ndarray) -> str | None:
    """How a column tells the rows rather than what they are of; ids with gaps are known only in the order of the rows,
    as sums of pixels may all differ too."""
    if len(numbers) > 1 and (np.diff(np.sort(numbers)) == 1).all():  # also of rows that were shuffled
        return "numbers the rows"
    if len(numbers) >= SORTED and (numbers == np.floor(numbers)).all() and (numbers[1:] > numbers[:-1]).all():
        return "grows from row to row, as an id does,"
    return None


def _numbers(frame: pd.DataFrame, name: str, path: Path, findings: Findings) -> np.ndarray:
    """Separators in numbers are a problem, and read all the same, so that what else is wrong is found."""
    column = frame[name]
    found = separators(column)
    if found:
        findings.problem(path, 1, f"column {name} has {found.what}", found.cure)
    return as_numbers(found.without if found else column)


def _mostly_numbers(numbers: np.ndarray) -> bool:
    return np.isfinite(numbers).mean() >= MOSTLY


def _telling_bags(columns: dict[str, np.ndarray], bag: pd.Series) -> list[str]:
    """Features that have one value in each bag, and not by chance: from them a network can learn labels by heart."""
    which = pd.factorize(bag)[0]
    first = np.unique(which, return_index=True)[1]  # (b,) the first row of each bag
    repeating = len(which) - len(first)  # rows that could differ from the first of their bag

    def by_chance(numbers: np.ndarray) -> float:  # at most
        return (np.unique(numbers, return_counts=True)[1].max() / len(numbers)) ** repeating

    return [
        name
        for name, numbers in columns.items()
        if (numbers == numbers[first][which]).all() and by_chance(numbers) < BY_CHANCE
    ]
