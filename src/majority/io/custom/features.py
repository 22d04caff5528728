"""Which columns of a table are its features: numbers, and text with few values; and what each becomes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from ...data.column_encoder import ColumnEncoder, FeatureColumn
from ...data.validation import LARGEST_FEATURE, needs_double
from .checks import add_found
from .findings import MAX_NAMES, Findings, UnreadableError, abbreviate_names, cells, features_option
from .names import MEANINGS, closest_name, did_you_mean, find_look_alikes, look_alikes
from .options import ReadOptions
from .parquet import LEFT_OUT
from .tables import as_numbers, as_text, has_separators

MIN_NUMBERS = 0.5  # a column with at least this share of numbers is a feature, and its other cells are mistakes
MAX_CATEGORIES = 20  # a column of text with more values is not a feature
MIN_ID_ROWS = 10  # from this number of rows on, whole numbers hardly increase from row to row by chance
MAX_CHANCE = 1e-3  # of a column with one value per bag
SEPARATED = "decimal commas or thousands separators"
POINTS = "write points for decimals and nothing for thousands: 1234.5, not 1,234.5, 1.234,5 or 1234,5"


class Content(NamedTuple):
    """What a column contains: numbers, categories, or something that cannot be used."""

    numbers: np.ndarray | None = None  # (n,) NaN where a cell is empty or not a number
    categories: tuple[str, ...] = ()
    unused: str = ""
    example: str = ""
    filled: np.ndarray = np.ones(0, bool)  # (n,)

    def as_column(self, name: str) -> FeatureColumn:
        if self.numbers is None:
            return FeatureColumn(name, self.categories)
        return FeatureColumn(name, fill=None if self.filled.all() else float(np.nanmedian(self.numbers)))


def read_features(
    frame: pd.DataFrame, path: Path, options: ReadOptions, findings: Findings
) -> tuple[np.ndarray, ColumnEncoder]:
    """The features (n, d), and how they were made of the columns.

    The dtype is float32, or float64 where float32 is too coarse, and always float64 for a classifier, whose training
    data may have needed it.
    """
    if options.features and options.for_classifier:
        encoder = options.encoder or ColumnEncoder(tuple(map(FeatureColumn, options.features)))
        contents = _read_as_trained(frame, path, encoder, findings)
    else:
        contents = _choose(frame, path, options, findings)
        encoder = ColumnEncoder(tuple(content.as_column(name) for name, content in contents.items()))
    add_found(look_alikes(frame, path, MEANINGS, encoder.names, options), findings)
    if not contents or len(contents) < len(encoder.columns):
        raise UnreadableError
    numbers = [content.numbers for content in contents.values() if content.numbers is not None]
    double = options.for_classifier or any(map(_needs_double, numbers))
    cells = (
        as_text(frame[name]).to_numpy() if content.numbers is None else content.numbers
        for name, content in contents.items()
    )
    with np.errstate(over="ignore"):  # numbers that are too large were reported
        return encoder.encode(cells, len(frame), np.dtype(np.float64 if double else np.float32)), encoder


def _needs_double(numbers: np.ndarray) -> bool:
    usable = numbers[np.abs(numbers) <= LARGEST_FEATURE]
    return len(usable) > 0 and needs_double(np.abs(usable).max(keepdims=True), usable.std(keepdims=True))


def look_at(column: pd.Series) -> Content:
    filled = (column.notna() & (column != "")).to_numpy(bool)
    if not filled.any():
        return Content(unused="nothing")
    numbers = as_numbers(column)
    if pd.api.types.is_numeric_dtype(column):
        return Content(numbers, filled=filled)
    values = pd.Series([value for value in pd.unique(as_text(column)) if value], dtype=object)
    if has_separators(values):
        return Content(unused=SEPARATED)
    are_numbers = np.isfinite(numbers)
    if are_numbers.sum() >= MIN_NUMBERS * filled.sum():
        return Content(numbers, filled=filled)
    if are_numbers.any():
        other = column[filled & ~are_numbers]
        share = f"numbers in {are_numbers.sum():,} of {len(column):,} cells, row {other.index[0]} is {other.iloc[0]!r}"
        return Content(unused="too few numbers", example=share)
    if len(values) > MAX_CATEGORIES:
        return Content(unused=f"text with more than {MAX_CATEGORIES} different values")
    return Content(categories=tuple(sorted(values)), filled=filled)


def _check_cells(column: pd.Series, path: Path, wrong: np.ndarray, left_out: str, findings: Findings) -> None:
    cure = f"write a finite number of up to ±{LARGEST_FEATURE:g}, or leave the {left_out} out"
    for row, cell in cells(column[wrong]):
        shown = "empty, NaN or NA" if pd.isna(cell) else f"{cell!r}" if isinstance(cell, str) else f"{cell}"
        findings.add_problem(path, row, f"feature {column.name} is {shown}", cure)


def _is_wrong(content: Content) -> np.ndarray:  # (n,)
    assert content.numbers is not None
    return content.filled & ~(np.abs(content.numbers) <= LARGEST_FEATURE)


# ---------------------------------------------------------------------- the columns of training data


def _choose(frame: pd.DataFrame, path: Path, options: ReadOptions, findings: Findings) -> dict[str, Content]:
    """The columns that are features: all that can be, or those of --features."""
    own = [name for name in frame.columns if name not in MEANINGS]
    left_out: dict[str, str] = frame.attrs.get(LEFT_OUT, {})
    usable: dict[str, Content] = {}
    unused = defaultdict(list)
    bags, alike = _BagsOfRows(frame), find_look_alikes([*frame.columns], MEANINGS, options)
    for name in options.features or (*own, *left_out):
        content = look_at(frame[name]) if name in own else Content(unused=left_out.get(name, "nothing"))
        if content.unused == SEPARATED:
            findings.add_problem(path, 1, f"column {name} has {SEPARATED}", POINTS)
        elif content.unused and options.features:
            _report_requested(name, content, path, [*own, *left_out], options.features, findings)
        elif reason := content.unused or bags.reason_against(content, frame[name]):
            if name not in alike:  # reported as such
                unused[reason].append((name, content.example))
        else:
            usable[name] = content
            if content.numbers is not None:
                _check_cells(frame[name], path, _is_wrong(content), "row or the column", findings)
    for warning in (*_describe_unused(unused, has_features=bool(usable)), *_describe_use(usable, bags, options)):
        findings.warn(warning)
    if not usable and not findings.problems:
        images = closest_name("path", own)
        cure = "add a column path" if images is None else f"rename the column {images} to path, if it names images"
        findings.add_problem(path, 1, "there are no features", f"{cure}, or add columns of numbers")
    return usable


class _BagsOfRows:
    """The bag of each row, to find columns that identify bags or tell their label."""

    def __init__(self, frame: pd.DataFrame):
        self.which = pd.factorize(frame["bag"])[0]
        self.first = np.unique(self.which, return_index=True)[1]  # (b,) the first row of each bag
        self.classes = {*frame["bag_label"]} if "bag_label" in frame else set()

    def reason_against(self, content: Content, column: pd.Series) -> str | None:
        """Why a column with usable cells is no feature."""
        if content.filled.all() and (column == column.iloc[0]).all():
            return "one value only"
        if content.numbers is None and len(self.classes.intersection(content.categories)) > 1:
            return "names of classes (if these are the classes of instances, rename it to label)"
        if content.numbers is None and self.identified_by(pd.factorize(column)[0]):
            return "text that is the same in all rows of each bag"
        return None

    def identified_by(self, numbers: np.ndarray) -> bool:
        """Whether there is one value per bag, and not by chance: a network could memorise the labels from it."""
        if not (numbers == numbers[self.first][self.which]).all():
            return False
        repetitions = len(self.which) - len(self.first)  # rows that could differ from the first row of their bag
        most_common = np.unique(numbers, return_counts=True)[1].max() / len(numbers)
        return bool(most_common**repetitions < MAX_CHANCE)  # an upper bound


def _report_requested(
    name: str, content: Content, path: Path, others: Sequence[str], requested: Sequence[str], findings: Findings
) -> None:
    """A column of --features that cannot be used."""
    what = f"column {name} contains {content.unused}{content.example and f' ({content.example})'}"
    if name in MEANINGS:
        what = f"column {name} has a special meaning"
    elif name not in others:
        guess = did_you_mean(name, [other for other in others if other not in requested])
        what = f"there is no column {name}{guess}"
    rest = abbreviate_names([other for other in others if other != name]) or "none"
    cure = f"name other columns ({rest}), those with a comma in quotes"
    findings.add_problem(path, 1, f"{what}, but --features names it", cure)


def _describe_unused(unused: Mapping[str, Sequence[tuple[str, str]]], has_features: bool) -> Iterator[str]:
    """`unused` are the names by the reason, each with an example of it."""
    for reason, found in unused.items():
        names, example = [name for name, _ in found], found[0][1] and f" ({found[0][0]}: {found[0][1]})"
        images = closest_name("path", names)
        cure = "" if images is None or not has_features else f" (if {images} names images, rename it to path)"
        yield f"{columns_are(names)} not used: {reason}{example}{cure}"


def columns_are(names: Sequence[str]) -> str:
    return f"column {names[0]} is" if len(names) == 1 else f"columns {abbreviate_names(names)} are"


def _describe_use(usable: Mapping[str, Content], bags: _BagsOfRows, options: ReadOptions) -> Iterator[str]:
    """Warnings about features that are probably none, and how cells became numbers."""
    numbers = {name: content.numbers for name, content in usable.items() if content.numbers is not None}
    ids = [name for name, values in numbers.items() if not options.features and _is_id(values)]
    if ids:
        what = "number the rows or increase from row to row like an id"
        yield f"{columns_are(ids)} used as a feature, but may {what}: remove it, or name the features with --features"
    constant = [name for name, values in numbers.items() if not options.features and bags.identified_by(values)]
    if constant:
        rest = [name for name in usable if name not in {*constant, *ids}]
        option = features_option(rest) if 0 < len(rest) <= MAX_NAMES else "--features"
        yield (
            f"{columns_are(constant)} the same in all rows of each bag, which identifies the bag but not the class of "
            f"an instance: remove it, or name the other features with {option}"
        )
    for name, content in usable.items():
        if content.categories:
            values = abbreviate_names(content.categories)
            yield f"column {name} is text: each of its {len(content.categories)} values ({values}) is a feature"
    missing = {name: int((~content.filled).sum()) for name, content in usable.items() if not content.filled.all()}
    of_numbers = [f"{name} ({count:,})" for name, count in missing.items() if name in numbers]
    if of_numbers:
        shown = abbreviate_names(of_numbers)
        yield f"empty cells of {shown} are filled with the median, and a further feature of each says where they are"


def _is_id(numbers: np.ndarray) -> bool:
    """Whether a column probably numbers the rows, or has an id for each.

    Ids with gaps are recognised only if they are sorted, because other whole numbers may be unique too.
    """
    if len(numbers) < MIN_ID_ROWS or not (numbers == np.floor(numbers)).all():
        return False
    increasing = (numbers[1:] > numbers[:-1]).all()
    return bool(increasing or (np.ptp(numbers) == len(numbers) - 1 and len(np.unique(numbers)) == len(numbers)))


# ---------------------------------------------------------------------- the columns of a classifier


def _read_as_trained(frame: pd.DataFrame, path: Path, encoder: ColumnEncoder, findings: Findings) -> dict[str, Content]:
    """The columns that the classifier was trained on, if all of them can be read as they were then."""
    trained_on = f"the run was trained on {abbreviate_names(encoder.names)}"
    contents = {}
    for column in encoder.columns:
        name = column.name
        if name not in frame:
            guess = did_you_mean(name, [other for other in frame.columns if other not in MEANINGS])
            findings.add_problem(path, 1, f"there is no column {name}{guess}", f"{trained_on}; add the column")
            continue
        content = look_at(frame[name])
        if column.categories:
            text = as_text(frame[name])
            new = text[~text.isin([*column.categories, ""])]
            if len(new):
                values = abbreviate_names([*map(str, pd.unique(new))])
                findings.warn(f"column {name} has values that training did not have ({values}): they are no category")
            contents[name] = Content(categories=column.categories)
        elif content.unused == "nothing" and column.fill is not None:
            contents[name] = Content(np.full(len(frame), np.nan))
        elif content.numbers is None:
            holds = content.unused or f"text ({abbreviate_names(content.categories)})"
            what = f"column {name} contains {holds}"
            findings.add_problem(path, 1, what, f"{trained_on}; write numbers into it")
        else:
            wrong = _is_wrong(content) | ~content.filled if column.fill is None else _is_wrong(content)
            _check_cells(frame[name], path, wrong, "row", findings)
            contents[name] = content
    return contents
