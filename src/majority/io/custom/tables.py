"""CSV and Parquet tables as frames. Names and labels are read as text, as they were written.

A folder of Parquet files is one table: the rows of its files in the order of their names.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Mapping
from itertools import groupby
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...data.feature_files import SUFFIXES as FEATURE_SUFFIXES
from ...data.feature_files import lower_suffix
from ...errors import InputError, closest
from ...files import check_expansion, check_regular
from .findings import ProblemError
from .options import Block

MISSING = ("NA", "N/A", "n/a", "NaN", "nan", "-nan", "null", "NULL", "None", "<NA>", "#N/A")  # in columns of numbers
TEXT_SUFFIXES = (".csv", ".tsv")
TEXT = ("bag", "bag_label", "second_label", "label", "path", "split", "group")  # columns with a meaning of their own
NUMBERS = ("x", "y", "weight")
MAX_NAME = 1000  # characters of a cell with a name: arrays of text take as much for each of their rows
UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # first bytes of a file
MIN_SIMILARITY = 0.8  # higher than usual, because short names are easily similar: bag and age by two thirds
SYNONYMS = {
    "bag": ("bag_id", "bag_name", "slide", "slide_id"),
    "bag_label": ("label", "class"),
    "path": ("file", "filename", "file_name", "file_path", "image", "image_path", "image_name", "img"),
}


def read_table(
    path: Path,
    text_columns: Iterable[str],
    names: Mapping[str, str | None] | None = None,
    optional_names: bool = False,
    block: Block | None = None,
) -> pd.DataFrame:
    """Read a table, or a block of Parquet. Its index has the number of each row in the file; blank lines are left out.

    `text_columns` are stripped text ("" if empty), so that a class 7 or 007 keeps its name. `names` says which of them
    have another name in the file; a name that is not there is a problem unless `optional_names`.
    """
    given = {own: usual for usual, own in (names or {}).items() if own is not None}
    text, is_csv = {*text_columns, *given}, path.suffix.lower() in TEXT_SUFFIXES
    try:
        frame = _read_csv(path, text) if is_csv else _read_parquet(path, block)
    except InputError:
        raise
    except ImportError:
        raise InputError(f"{path}: Parquet needs pyarrow: pip install pyarrow, or save the table as CSV") from None
    except Exception as error:  # pandas, pyarrow and the operating system raise different exceptions
        reason, kind = str(error).strip().split("\n")[0], "CSV" if is_csv else "PARQUET"
        cure = "save it again" + (" as UTF-8, with commas, semicolons or tabs" if is_csv else "")
        raise ProblemError(path, None, f"it cannot be read as {kind} ({reason})", cure) from error
    repeated = frame.columns[frame.columns.duplicated()]
    if len(repeated):
        raise ProblemError(path, 1, f"two columns are named {repeated[0]!r}", "give each column its own name")
    if len(frame) == 0:
        raise ProblemError(path, None, "it has no rows", "write a header, and one row per instance or bag below it")
    for name in text & {*frame}:
        if other_content(frame[name]) == "bytes":  # some programs write text so
            frame[name] = frame[name].str.decode("utf-8", errors="replace")
    for name in (text | {*NUMBERS}) & {*frame}:
        if other := other_content(frame[name]):
            raise ProblemError(path, 1, f"column {name} contains {other}", "write one value into each cell")
    for name in text & {*frame}:
        frame[name] = as_text(frame[name])
        long = frame.index[frame[name].str.len() > MAX_NAME]
        if len(long):
            what = f"{name} has {len(frame[name][long[0]]):,} characters"
            raise ProblemError(path, int(long[0]), what, f"write a name of at most {MAX_NAME:,}")
    for own, usual in given.items():
        if own not in frame and not optional_names:
            what = f"there is no column {own}{did_you_mean(own, frame.columns)}"
            raise ProblemError(path, 1, what, f"correct --{usual.removeprefix('bag_')}-column")
    given = {own: usual for own, usual in given.items() if own in frame and own != usual}
    others = [usual for usual in given.values() if usual in frame and usual not in given]  # for something else
    return frame.drop(columns=others).rename(columns=given)


def other_content(column: pd.Series) -> str:
    """The kind of values that are neither numbers nor text, such as datetime64[ns] or list; "" if there are none.

    >>> other_content(pd.Series([[1, 2], None])), other_content(pd.Series(["a", 3]))
    ('list', '')
    """
    if pd.api.types.is_datetime64_any_dtype(column) or pd.api.types.is_timedelta64_dtype(column):
        return str(column.dtype)
    cell = next(iter(column.dropna()), "") if column.dtype == object else ""
    return "" if isinstance(cell, str | Number) else type(cell).__name__


def closest_name(column: str, existing: Iterable[str]) -> str | None:
    """The existing column that is probably this one under another name.

    >>> closest_name("path", ["a", "Image"]), closest_name("bag", ["Bag ID", "b"]), closest_name("bag", ["age", "b"])
    ('Image', 'Bag ID', None)
    """
    existing = list(existing)
    found = (closest(name, existing, MIN_SIMILARITY) for name in (column, *SYNONYMS.get(column, ())))
    return next(filter(None, found), None)


def did_you_mean(column: str, existing: Iterable[str]) -> str:
    guess = closest_name(column, existing)
    return f" (did you mean {guess}?)" if guess else ""


def look_alikes(columns: Iterable[str]) -> dict[str, str]:
    """Column -> the column of `TEXT` that is probably meant: it differs in capitals, spaces or by a typing mistake.

    >>> look_alikes(["Label", "bag lable", "splits", "Path", "patch", "label2", "label"])
    {'Label': 'label', 'bag lable': 'bag_label', 'splits': 'split', 'Path': 'path'}
    """
    found = {}
    for column in columns:
        name = column.strip().lower().replace(" ", "_")
        similar = [one for one in TEXT if one[0] == name[:1] and abs(len(one) - len(name)) < 2 and one != "path"]
        meant = name if name in TEXT else closest(name, similar, MIN_SIMILARITY)
        if meant and column not in TEXT and not any(map(str.isdigit, name)):
            found[column] = meant
    return found


def as_text(column: pd.Series) -> pd.Series:
    """Stripped text, "" for an empty cell; whole numbers have no decimal point."""
    if pd.api.types.is_float_dtype(column) and ((column % 1 == 0) & (column.abs() < 2**63) | column.isna()).all():
        column = column.astype("Int64")
    which, values = pd.factorize(column)  # -1: missing
    text = np.array([*(str(value).strip() for value in values), ""], object)
    return pd.Series(text[which], column.index, object, name=column.name)


def as_numbers(column: pd.Series) -> np.ndarray:
    """(n,) float64, NaN for a cell that is empty or not a number. True and false are 1 and 0.

    >>> as_numbers(pd.Series(["1.5", "10_1", None]))
    array([1.5, nan, nan])
    """
    if pd.api.types.is_numeric_dtype(column):
        return column.to_numpy(np.float64, na_value=np.nan)
    which, cells = pd.factorize(column)  # each different cell is read once; -1: missing
    try:
        numbers = pd.to_numeric(pd.Series(cells), errors="coerce").to_numpy(np.float64, na_value=np.nan)
    except OverflowError:  # a whole number beyond the range of float64
        numbers = np.array([*map(_as_number, cells)])
    return np.append(numbers, np.nan)[which]


def _as_number(cell: Any) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def _read_csv(path: Path, text: set[str]) -> pd.DataFrame:
    check_regular(path)
    with path.open("rb") as start:
        encoding = "utf-16" if start.read(2) in UTF_16 else "utf-8-sig"
    with path.open(newline="", encoding=encoding) as file:
        separator = _guess_separator(file.readline(), text)
        file.seek(0)
        lines = csv.reader(file, delimiter=separator)
        names, first = next(lines, []), next(lines, [])
    header = [name.strip() or f"unnamed{number}" for number, name in enumerate(names, start=1)]
    if header and header[0].lower().startswith("sep="):
        raise ProblemError(path, 1, f"{header[0]} is a note for Excel and no header", "remove this line")
    if len({*header}) < len(header) or not first:
        return pd.DataFrame(columns=header)
    if len(first) > len(header):  # pandas would leave out the last cells
        raise ValueError(f"row 2 has {len(first):,} cells, the header {len(header):,}")
    text = text & {*header}

    def read(missing: Collection[str], columns: Collection[str] | None = None, decimal: str = ".") -> pd.DataFrame:
        frame: pd.DataFrame = pd.read_csv(
            path,
            sep=separator,
            decimal=decimal,
            header=None,
            names=header,
            usecols=None if columns is None else [*columns],
            skiprows=1,
            index_col=False,
            dtype=dict.fromkeys(text, str),
            na_values=[*missing],  # of all columns: with one list for each, wide tables take twice the time and memory
            keep_default_na=False,
            skip_blank_lines=False,
            low_memory=False,
            encoding=encoding,
        )
        return frame

    frame = read(("", *MISSING))
    if separator != "," and any(_has_decimal_commas(frame[name]) for name in frame.columns.difference([*text])):
        frame = read(("", *MISSING), decimal=",")  # columns with points are then text, which as_numbers reads
    unsure = [name for name in text if frame[name].isna().any()]
    if unsure:  # in text, NA may be a name
        frame[unsure] = read([""], unsure)[unsure]
    frame.index = pd.RangeIndex(2, len(frame) + 2)
    return frame.dropna(how="all")


def _has_decimal_commas(column: pd.Series) -> bool:
    if pd.api.types.is_numeric_dtype(column):
        return False
    return bool(pd.Series(column.unique()).astype(str).str.fullmatch(r"\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*").any())


def _guess_separator(line: str, known: Collection[str]) -> str:
    """The separator by which the header has more known names, then more names.

    Spreadsheets in countries with decimal commas write semicolons, and a name in the header may contain a comma.
    """

    def count_names(separator: str) -> tuple[int, int]:
        names = [name.strip(' "\r\n') for name in line.split(separator)]
        return len({*names} & {*known}), len(names)

    return max(",;\t", key=count_names)  # the first of equal ones


def is_parquet(source: Path) -> bool:
    """Whether this is a Parquet file or a folder of Parquet files and no feature files."""
    files = [path for path in source.iterdir() if not path.name.startswith((".", "_"))] if source.is_dir() else [source]
    suffixes = {lower_suffix(path) for path in files}
    return ".parquet" in suffixes and not suffixes & {*FEATURE_SUFFIXES}


def parquet_files(source: Path) -> list[Path]:
    """The files of a Parquet table in the order of their names. Hidden ones are left out, as other programs do."""
    return sorted(path for path in source.glob("[!._]*.[pP]*") if lower_suffix(path) == ".parquet") or [source]


def _read_parquet(path: Path, block: Block | None) -> pd.DataFrame:
    """All rows, or those of the row groups of a block."""
    if block is None:
        frames = [_read_row_groups(file, None) for file in parquet_files(path)]
    else:
        chosen = groupby(block.row_groups, key=lambda group: group[0])
        frames = [_read_row_groups(path / file, [number for _, number in groups]) for file, groups in chosen]
    frame = frames[0] if len(frames) == 1 else pd.concat(frames)
    first = 1 if block is None else 1 + block.start
    frame.index = pd.RangeIndex(first, first + len(frame))
    return frame


def _read_row_groups(path: Path, numbers: list[int] | None) -> pd.DataFrame:
    import pyarrow.parquet as pq

    check_regular(path)
    file = pq.ParquetFile(path)
    facts, numbers = file.metadata, [*range(file.num_row_groups)] if numbers is None else numbers
    rows = sum(facts.row_group(number).num_rows for number in numbers)
    check_expansion(path, rows * facts.num_columns * 8)  # repeated values take no space in the file
    table = file.read_row_groups(numbers)
    table.validate(full=True)  # text of a damaged file may not be UTF-8, which pandas finds out when it reads a cell
    frame: pd.DataFrame = table.to_pandas()
    if not isinstance(frame.index, pd.RangeIndex):  # an index that is in the file: its levels become columns
        frame = frame.reset_index([name for name in frame.index.names if name is not None and name not in frame])
    frame.columns = pd.Index([str(name).strip() or f"unnamed{i}" for i, name in enumerate(frame.columns, start=1)])
    return frame
