"""CSV and Parquet tables as frames. Names and labels are read as text, as they were written."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...errors import InputError, count_noun
from .findings import Findings, UnreadableError
from .names import NUMBERS, did_you_mean
from .options import Block
from .parquet import column_names, read_parquet

MISSING = ("NA", "N/A", "n/a", "NaN", "nan", "-nan", "null", "NULL", "None", "<NA>", "#N/A")  # in columns of numbers
TEXT_SUFFIXES = (".csv", ".tsv")
NAME_OPTIONS = {"bag": "bag", "bag_label": "label", "label": "label", "path": "path"}  # usual name -> in --X-column
MAX_NAME = 1000  # characters of a cell with a name: arrays of text take as much for each of their rows
UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # first bytes of a file
DECIMAL_COMMAS = r"\s*[-+]?\d*,?\d+([eE][-+]?\d+)?\s*"
SEPARATED = r"\s*[-+]?(\d{1,3}([.,]\d{3})+|\d+)([.,]\d+)?\s*"  # 1,234.5 or 1.234,5


def read_table(
    path: Path,
    text_columns: tuple[str, ...],
    findings: Findings,
    names: Mapping[str, str] | None = None,
    optional_names: bool = False,
    block: Block | None = None,
) -> pd.DataFrame:
    """Read a table, or a block of Parquet. Its index has the number of each row in the file; blank lines are left out.

    A folder of Parquet files is one table: the rows of its files in the order of their names.

    `text_columns` are stripped text ("" if empty), so that a class 7 or 007 keeps its name. `names` says which of them
    have another name in the file; a name that is not there is a problem unless `optional_names`.
    """
    names = names or {}
    text_columns = (*text_columns, *names.values())
    n_problems, is_text = len(findings.problems), path.suffix.lower() in TEXT_SUFFIXES
    try:
        if is_text:
            frame = _read_csv(path, text_columns, findings)
        else:
            frame = read_parquet(path, (*text_columns, *NUMBERS), block, findings)
    except (UnreadableError, InputError):
        raise
    except ImportError:
        findings.add_problem(path, None, "Parquet needs pyarrow", "pip install pyarrow, or save the table as CSV")
    except Exception as error:  # pandas, pyarrow and the operating system raise different exceptions
        reason, kind = str(error).strip().split("\n")[0], path.suffix.lower().removeprefix(".").upper()
        encoding = " as UTF-8, with commas, semicolons or tabs" if is_text else ""
        findings.add_problem(path, None, f"it cannot be read as {kind} ({reason})", f"save it again{encoding}")
    else:
        _check_column_names(path, list(frame.columns), findings)
        if len(frame) == 0:
            findings.add_problem(path, None, "it has no rows", "write one row per instance or bag below the header")
        for name in set(text_columns) & set(frame.columns):
            frame[name] = as_text(frame[name])
            _check_lengths(frame[name], path, findings)
    if len(findings.problems) > n_problems:
        raise UnreadableError
    return _rename(frame, path, names, optional_names, findings)


def _check_lengths(names: pd.Series, path: Path, findings: Findings) -> None:
    which, texts = pd.factorize(names)
    long = np.array([len(text) > MAX_NAME for text in texts], bool)
    for row in names.index[long[which]]:
        what = f"{names.name} has {len(names[row]):,} characters"
        findings.add_problem(path, row, what, f"write a name of at most {MAX_NAME:,}")


def _rename(
    frame: pd.DataFrame, path: Path, names: Mapping[str, str], optional: bool, findings: Findings
) -> pd.DataFrame:
    """Give the columns their usual names. A column that has such a name already, for something else, is left out."""
    absent = [name for name in names if names[name] not in frame]
    for name in () if optional else absent:
        what = f"there is no column {names[name]}{did_you_mean(names[name], frame.columns)}"
        findings.add_problem(path, 1, what, f"correct --{NAME_OPTIONS[name]}-column")
    if absent and not optional:
        raise UnreadableError
    given = {names[name]: name for name in names if name not in absent and names[name] != name}
    replaced = [name for name in given.values() if name in frame and name not in given]
    return frame.drop(columns=replaced).rename(columns=given)


# ---------------------------------------------------------------------- cells


def as_text(column: pd.Series) -> pd.Series:
    """Stripped text, "" for an empty cell; whole numbers have no decimal point."""
    if pd.api.types.is_float_dtype(column) and ((column % 1 == 0) & (column.abs() < 2**63) | column.isna()).all():
        column = column.astype("Int64")
    which, values = pd.factorize(column)  # -1: missing
    text = np.array([*(str(value).strip() for value in values), ""], object)
    return pd.Series(text[which], column.index, object, name=column.name)


def as_numbers(column: pd.Series) -> np.ndarray:
    """(n,) float64, NaN for a cell that is empty or not a number. True and false are 1 and 0."""
    if pd.api.types.is_numeric_dtype(column):
        return column.to_numpy(np.float64, na_value=np.nan)
    which, cells = pd.factorize(column)  # each different cell is read once; -1: missing
    try:
        numbers = pd.to_numeric(pd.Series(cells), errors="coerce").to_numpy(np.float64, na_value=np.nan)
    except OverflowError:  # a whole number beyond the range of float64
        numbers = np.array([_as_float(cell) for cell in cells], np.float64)
    return np.append(numbers, np.nan)[which]


def _as_float(cell: Any) -> float:
    try:
        return float(cell)
    except OverflowError:
        return np.inf
    except (TypeError, ValueError):
        return np.nan


def has_separators(cells: pd.Series) -> bool:
    """Whether these texts are numbers, some of them with commas, or with points for thousands.

    >>> has_separators(pd.Series(["875", "1.234,5", "1,001"])), has_separators(pd.Series(["1.5", "a"]))
    (True, False)
    """
    marked = cells.str.contains(",", regex=False) | (cells.str.count(r"\.") > 1)
    return bool(marked.any() and (cells.str.fullmatch(SEPARATED).all() or cells.str.fullmatch(DECIMAL_COMMAS).all()))


def _with_points(column: pd.Series) -> pd.Series:
    """A column of text in which all numbers are written like 1,5 as numbers; any other as it is."""
    if pd.api.types.is_numeric_dtype(column):
        return column
    which, cells = pd.factorize(column)
    text = pd.Series(cells, dtype=object).astype(str)
    if not text.str.contains(",", regex=False).any() or not text.str.fullmatch(DECIMAL_COMMAS).all():
        return column
    return pd.Series(np.append(pd.to_numeric(text.str.replace(",", ".")), np.nan)[which], column.index)


# ---------------------------------------------------------------------- CSV


def _read_csv(path: Path, text_columns: tuple[str, ...], findings: Findings) -> pd.DataFrame:
    with path.open("rb") as start:
        encoding = "utf-16" if start.read(2) in UTF_16 else "utf-8-sig"
    with path.open(newline="", encoding=encoding) as file:
        separator = _guess_separator(file.readline(), text_columns)
        file.seek(0)
        lines = csv.reader(file, delimiter=separator)
        header, first = column_names(next(lines, [])), next(lines, [])
    _check_column_names(path, header, findings)
    if len(first) > len(header):  # pandas would leave out the last cells
        raise ValueError(f"row 2 has {count_noun(len(first), 'cell')}, the header {len(header):,}")

    def read(columns: list[str] | None = None, **settings: Any) -> pd.DataFrame:
        return pd.read_csv(
            path,
            sep=separator,
            header=None,
            names=header,
            usecols=columns,
            skiprows=1,
            index_col=False,
            keep_default_na=False,
            skip_blank_lines=False,
            encoding=encoding,
            low_memory=False,
            **settings,
        )

    if not first:
        return pd.DataFrame(columns=header)
    text = {*text_columns} & {*header}
    # One list for all columns: with one per column, pandas takes 12 kB of memory for each of them.
    frame = read(dtype=dict.fromkeys(text, str), na_values=["", *MISSING])
    unsure = [name for name in text if frame[name].isna().any()]  # in text, NA may be a name
    if unsure:
        frame[unsure] = read(unsure, dtype=str, na_values=[""])[unsure]
    frame.index = pd.RangeIndex(2, len(frame) + 2)
    if separator != ",":
        for name in frame.columns.difference([*text]):
            frame[name] = _with_points(frame[name])
    return frame.dropna(how="all")


def _guess_separator(line: str, known: Iterable[str]) -> str:
    """The separator by which the header has more known names, then more names.

    Spreadsheets in countries with decimal commas write semicolons, and a name in the header may contain a comma. A tab
    is hardly ever part of a name.
    """

    def count_names(separator: str) -> tuple[int, int]:
        names = [name.strip(' "\r\n') for name in line.split(separator)]
        return len({*names} & {*known}), len(names)

    return max(",;\t", key=count_names)  # the first of equal ones


def _check_column_names(path: Path, header: list[str], findings: Findings) -> None:
    repeated = [name for name, count in Counter(header).items() if count > 1]
    if not header:
        findings.add_problem(path, None, "it is empty", "write a header and one row per instance or bag")
    elif header[0].lower().startswith("sep="):
        findings.add_problem(path, 1, "it sets the separator for Excel (sep=) and is not a header", "remove this line")
    elif repeated:
        findings.add_problem(path, 1, f"two columns are named {repeated[0]!r}", "give each column its own name")
    else:
        return
    raise UnreadableError
