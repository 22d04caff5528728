"""CSV and Parquet tables: names and labels as the text they were written as, all other columns as they are."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np
import pandas as pd

from .findings import Findings, UnreadableError

MISSING = ("NA", "N/A", "n/a", "NaN", "nan", "-nan", "null", "NULL", "None", "<NA>", "#N/A")  # of numbers; else a name

DATES = ("date", "datetime", "datetime64", "period", "time", "timedelta", "timedelta64")  # as pandas calls them
THOUSANDS_BY_COMMAS = r"[-+]?([1-9]\d{0,2}(,\d{3})+|\d+)(\.\d+)?"
THOUSANDS_BY_POINTS = r"[-+]?([1-9]\d{0,2}(\.\d{3})+|\d+)(,\d+)?"
CERTAIN_THOUSANDS = ("thousands separators", "write 1234.5, not 1,234.5 or 1.234,5")
CODES = "codes"  # a table's attribute: columns with numbers that are written with leading zeros
LOOKED_AT = 100  # rows, for such
LISTS = "lists (write a column for each number)"


def read_table(path: Path, text_columns: tuple[str, ...], findings: Findings) -> pd.DataFrame:
    """The table; its index holds each row's number in the file. Blank lines are passed over.

    `text_columns` come as stripped text ("" where empty), so that a class 7 or 007 keeps its name.
    """
    problems = len(findings.problems)
    try:
        frame = _read_csv(path, text_columns, findings) if path.suffix.lower() == ".csv" else _read_parquet(path)
    except UnreadableError:
        raise
    except ImportError:
        findings.problem(path, None, "Parquet needs pyarrow", "pip install pyarrow, or save it as CSV")
    except Exception as error:  # pandas, pyarrow and the operating system each raise their own kinds
        reason = str(error).strip().split("\n")[0]
        kind = path.suffix.lower().removeprefix(".").upper()
        of_csv = " as UTF-8, with commas or semicolons" if kind == "CSV" else ""
        findings.problem(path, None, f"it cannot be read as {kind} ({reason})", f"save it again{of_csv}")
    else:
        _check_names(path, list(frame.columns), findings)
        if len(frame) == 0:
            findings.problem(path, None, "it has no rows", "write one for each instance or bag below the header")
        for name in text_columns:
            if name in frame and what_it_holds(frame[name]) == LISTS:
                findings.problem(path, 1, f"column {name} holds lists", "write one name into each cell")
    if len(findings.problems) > problems:
        raise UnreadableError
    for name in set(text_columns) & set(frame.columns):
        frame[name] = as_text(frame[name])
    return frame


def as_text(column: pd.Series) -> pd.Series:
    """Text without blanks around it, "" where empty; whole numbers without a decimal point."""
    if pd.api.types.is_float_dtype(column) and (column.dropna() % 1 == 0).all():
        column = column.astype("Int64")
    which, values = pd.factorize(column.astype(object))  # -1: missing
    text = np.array([*(_written(value) for value in values), ""], object)
    return pd.Series(text[which], column.index, object)


def _written(value: object) -> str:
    """Some programs write text into Parquet as plain bytes."""
    return (value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)).strip()


def as_numbers(column: pd.Series) -> np.ndarray:
    """(n,) float64, NaN where a cell is empty or is no number; true and false are 1 and 0, a date is no number."""
    if pd.api.types.infer_dtype(column, skipna=True) in DATES:
        return np.full(len(column), np.nan)
    if isinstance(column.dtype, pd.StringDtype):  # to find that a text is no number takes long: once for each
        which, texts = pd.factorize(column)  # -1: missing
        return np.append(_as_floats(pd.Series(texts)), np.nan)[which]
    return _as_floats(column)


def _as_floats(column: pd.Series) -> np.ndarray:
    return pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)


class Separators(NamedTuple):
    """Commas and points in the numbers of a column of text, by which they are not read."""

    what: str
    cure: str
    without: pd.Series


def separators(column: pd.Series) -> Separators | None:
    """Of a column of text that are all numbers, some with a comma or with points between thousands.

    >>> separators(pd.Series(["875", "1,001"])).cure
    'write 1001 if it is a thousand, 1.001 if not'
    """
    if pd.api.types.is_numeric_dtype(column):
        return None
    filled = column.dropna().astype(str).str.strip()
    points, commas = filled.str.contains(".", regex=False), filled.str.contains(",", regex=False)
    several = filled.str.count("[.,]") > 1
    if commas.any() and filled.str.fullmatch(THOUSANDS_BY_COMMAS).all():
        without = _replaced(column, ",", "")
        if points.any() or several.any():
            return Separators(*CERTAIN_THOUSANDS, without)
        cell = filled[commas].iloc[0]
        what = f"thousands separators or decimal commas, as in {cell}"
        cure = f"write {cell.replace(',', '')} if it is a thousand, {cell.replace(',', '.')} if not"
        return Separators(what, cure, without)
    if points.any() and (commas | several).any() and filled.str.fullmatch(THOUSANDS_BY_POINTS).all():
        return Separators(*CERTAIN_THOUSANDS, with_points(_replaced(column, ".", "")))
    if has_decimal_commas(column):
        return Separators("decimal commas", "write points: 1.5, not 1,5", with_points(column))
    return None


def has_decimal_commas(column: pd.Series) -> bool:
    """Of a column of text: whether it is of numbers, some written as 1,5."""
    if pd.api.types.is_numeric_dtype(column):
        return False
    filled = column.dropna().astype(str)
    if not filled.str.contains(",", regex=False).any():
        return False
    return bool(filled.str.fullmatch(r"\s*[-+]?\d*,?\d+([eE][-+]?\d+)?\s*").all())


def with_points(column: pd.Series) -> pd.Series:
    """1,5 as 1.5."""
    return _replaced(column, ",", ".")


def _replaced(column: pd.Series, old: str, new: str) -> pd.Series:
    return column.astype(object).map(lambda cell: cell.replace(old, new) if isinstance(cell, str) else cell)


def what_it_holds(column: pd.Series) -> str:
    """Of a column that holds no numbers."""
    filled = column.dropna()
    if len(filled) == 0:
        return "nothing"
    if pd.api.types.infer_dtype(filled) in DATES:
        return "dates or times"
    return LISTS if pd.api.types.is_list_like(filled.iloc[0]) else "text"


def _read_csv(path: Path, text_columns: tuple[str, ...], findings: Findings) -> pd.DataFrame:
    with path.open(newline="", encoding="utf-8-sig") as file:
        separator = _separator(file, text_columns)
        lines = csv.reader(file, delimiter=separator)
        header, first = _names(next(lines, [])), next(lines, [])
    _check_names(path, header, findings)
    if len(first) > len(header):
        _name_long_rows(path, len(header), separator, findings)
    text = set(text_columns) & set(header)
    read = partial(
        pd.read_csv,
        path,
        sep=separator,
        header=None,
        names=header,
        skiprows=1,
        index_col=False,
        keep_default_na=False,
        skip_blank_lines=False,
        encoding="utf-8-sig",
        low_memory=False,
    )
    try:
        missing = {name: ["", *MISSING] for name in header if name not in text}
        frame = read(dtype=dict.fromkeys(text, str), na_values=missing)
        whole = [name for name in header if name not in text and _is_whole(frame[name].head(LOOKED_AT))]
        written = read(dtype=str, usecols=whole, nrows=LOOKED_AT) if whole else {}
    except pd.errors.EmptyDataError:
        return pd.DataFrame(columns=header)
    except pd.errors.ParserError:
        _name_long_rows(path, len(header), separator, findings)
        raise
    frame.index = np.arange(2, len(frame) + 2)
    frame.attrs[CODES] = [name for name in written if written[name].str.fullmatch(r"\s*0\d+\s*").any()]
    if separator == ";":
        for name in header:
            if name not in text and has_decimal_commas(frame[name]):
                frame[name] = with_points(frame[name])
    cells = (frame[name].isna() | (frame[name] == "") if name in text else frame[name].isna() for name in header)
    blank = np.logical_and.reduce(list(cells))
    return frame[~blank].copy() if blank.any() else frame


def _is_whole(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column) and bool((column.dropna() % 1 == 0).all())


def _read_parquet(path: Path) -> pd.DataFrame:
    frame = pd.read_parquet(path)
    if not isinstance(frame.index, pd.RangeIndex):  # else its levels are columns, in the file
        frame = frame.reset_index([name for name in frame.index.names if name is not None and name not in frame])
    frame.columns = _names(frame.columns)
    frame.index = np.arange(1, len(frame) + 1)
    halves = [name for name in frame.columns[~frame.columns.duplicated(keep=False)] if frame[name].dtype == np.float16]
    return frame.astype(dict.fromkeys(halves, np.float32))  # pandas groups no halves


def _names(header: Iterable) -> list[str]:
    """A column without a name, such as an index that was written with the table, is called by its place."""
    return [str(name).strip() or f"unnamed{place}" for place, name in enumerate(header, start=1)]


def _separator(file: TextIO, known: Iterable[str]) -> str:
    """By the header: spreadsheets of countries that write a decimal comma separate by semicolons, and a name there may
    hold a comma. The one by which more names are known, then more are found."""

    def found(separator: str) -> tuple[int, int]:
        file.seek(0)
        names = next(csv.reader(file, delimiter=separator), [])
        return len({name.strip() for name in names} & set(known)), len(names)

    semicolons = found(";") > found(",")
    file.seek(0)
    return ";" if semicolons else ","


def _name_long_rows(path: Path, width: int, separator: str, findings: Findings) -> None:
    """Rows with more cells than the header, each a problem."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = enumerate(csv.reader(file, delimiter=separator), start=1)
        long = {number: len(cells) for number, cells in rows if len(cells) > width}
    for number, cells in long.items():
        what = f"it has {cells} cells, the header {width}"
        findings.problem(path, number, what, "give every row as many cells as the header has")
    if long:
        raise UnreadableError


def _check_names(path: Path, header: list[str], findings: Findings) -> None:
    twice = [name for name, count in Counter(header).items() if count > 1]
    if not header:
        findings.problem(path, None, "it is empty", "write a header and a row for each instance or bag")
    elif header[0].lower().startswith("sep="):
        findings.problem(path, 1, "it tells Excel the separator (sep=) and is no header", "remove this line")
    elif len(header) == 1 and "\t" in header[0]:
        findings.problem(path, 1, "it is separated by tabs", "save it as CSV, with commas or semicolons")
    elif twice:
        findings.problem(path, 1, f"two columns are named {twice[0]!r}", "give each column a name of its own")
    else:
        return
    raise UnreadableError
