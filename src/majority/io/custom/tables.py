"""CSV and Parquet tables. Names and labels are read as text, as they were written; other columns keep their type."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pandas as pd

from ...errors import InputError, count_noun
from .findings import Findings, UnreadableError
from .names import column_names, did_you_mean
from .parquet import read_parquet
from .read_options import Block

MISSING = ("NA", "N/A", "n/a", "NaN", "nan", "-nan", "null", "NULL", "None", "<NA>", "#N/A")  # in columns of numbers

DATES = ("date", "datetime", "datetime64", "period", "time", "timedelta", "timedelta64")  # inferred types of pandas
GROUPED_NUMBER = r"[-+]?(\d{1,3}([.,]\d{3})+|\d+)([.,]\d+)?"  # 1,234.5 or 1.234,5
LEADING_ZEROS = "leading_zeros"  # attribute of a table: the columns of whole numbers with leading zeros
LEADING_ZEROS_ROWS = 100  # the first rows, in which leading zeros are searched for
LISTS = "lists (write one column per number)"
BYTES = "bytes (write numbers)"


TEXT_SUFFIXES = (".csv", ".tsv")
NAME_OPTIONS = {"bag": "bag", "bag_label": "label", "label": "label", "path": "path"}  # usual name -> in --X-column


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
    n_problems, lower = len(findings.problems), path.suffix.lower()
    try:
        frame = _read_csv(path, text_columns, findings) if lower in TEXT_SUFFIXES else read_parquet(path, block)
    except (UnreadableError, InputError):
        raise
    except ImportError:
        findings.add_problem(path, None, "Parquet needs pyarrow", "pip install pyarrow, or save the table as CSV")
    except Exception as error:  # pandas, pyarrow and the operating system raise different exceptions
        reason = str(error).strip().split("\n")[0]
        kind = lower.removeprefix(".").upper()
        encoding = " as UTF-8, with commas, semicolons or tabs" if lower in TEXT_SUFFIXES else ""
        findings.add_problem(path, None, f"it cannot be read as {kind} ({reason})", f"save it again{encoding}")
    else:
        _check_column_names(path, list(frame.columns), findings)
        if len(frame) == 0:
            findings.add_problem(path, None, "it has no rows", "write one row per instance or bag below the header")
        for name in text_columns:
            if name in frame and describe_content(frame[name]) == LISTS:
                findings.add_problem(path, 1, f"column {name} contains lists", "write one name into each cell")
    if len(findings.problems) > n_problems:
        raise UnreadableError
    for name in set(text_columns) & set(frame.columns):
        frame[name] = as_text(frame[name])
    return _rename(frame, path, names, optional_names, findings)


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


def as_text(column: pd.Series) -> pd.Series:
    """Stripped text, "" for an empty cell; whole numbers have no decimal point."""
    if pd.api.types.is_float_dtype(column) and ((column % 1 == 0) & (column.abs() < 2**63) | column.isna()).all():
        column = column.astype("Int64")
    which, values = pd.factorize(column.astype(object))  # -1: missing
    text = np.array([*(_cell_text(value) for value in values), ""], object)
    return pd.Series(text[which], column.index, object)


def _cell_text(value: object) -> str:
    """The text of a cell. Some programs write text into Parquet as bytes."""
    return (value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)).strip()


def as_numbers(column: pd.Series) -> np.ndarray:
    """(n,) float64, NaN for a cell that is empty or not a number, such as a date. True and false are 1 and 0."""
    if pd.api.types.infer_dtype(column, skipna=True) in DATES:
        return np.full(len(column), np.nan)
    if isinstance(column.dtype, pd.StringDtype):  # converting text takes long, so each different text is done once
        which, texts = pd.factorize(column)  # -1: missing
        return np.append(_as_floats(pd.Series(texts)), np.nan)[which]
    return _as_floats(column)


def _as_floats(column: pd.Series) -> np.ndarray:
    try:
        return pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    except OverflowError:  # a whole number beyond the range of float64
        return np.array([_as_float(cell) for cell in column], np.float64)


def _as_float(cell: Any) -> float:
    try:
        return float(cell)
    except OverflowError:
        return np.inf
    except (TypeError, ValueError):
        return np.nan


def without_separators(column: pd.Series) -> pd.Series | None:
    """A text column of numbers with points; None if none of its numbers has commas, or points for thousands.

    >>> without_separators(pd.Series(["875", "1.234,5", "1,001"])).tolist()
    ['875', '1234.5', '1.001']
    """
    if pd.api.types.is_numeric_dtype(column) or describe_content(column) == BYTES:
        return None
    filled = column.dropna().astype(str).str.strip()
    has_separators = filled.str.contains(",", regex=False) | (filled.str.count(r"\.") > 1)
    if not has_separators.any() or not (filled.str.fullmatch(GROUPED_NUMBER).all() or has_decimal_commas(column)):
        return None
    last_only = filled.str.replace(r"[.,](?=.*[.,])", "", regex=True)
    return commas_to_points(last_only).reindex(column.index)


def has_decimal_commas(column: pd.Series) -> bool:
    """Whether all cells of a text column are numbers, and some are written like 1,5."""
    if pd.api.types.is_numeric_dtype(column):
        return False
    filled = column.dropna().astype(str)
    if not filled.str.contains(",", regex=False).any():
        return False
    return bool(filled.str.fullmatch(r"\s*[-+]?\d*,?\d+([eE][-+]?\d+)?\s*").all())


def commas_to_points(column: pd.Series) -> pd.Series:
    return column.astype(object).map(lambda cell: cell.replace(",", ".") if isinstance(cell, str) else cell)


def describe_content(column: pd.Series) -> str:
    """What a column without numbers contains."""
    filled = column.dropna()
    if len(filled) == 0:
        return "nothing"
    inferred = pd.api.types.infer_dtype(filled)
    if inferred in DATES or inferred == "bytes":
        return BYTES if inferred == "bytes" else "dates or times"
    return LISTS if pd.api.types.is_list_like(filled.iloc[0]) else "text"


def _read_csv(path: Path, text_columns: tuple[str, ...], findings: Findings) -> pd.DataFrame:
    with path.open(newline="", encoding="utf-8-sig") as file:
        separator = _guess_separator(file, text_columns)
        lines = csv.reader(file, delimiter=separator)
        header, first = column_names(next(lines, [])), next(lines, [])
    _check_column_names(path, header, findings)
    if len(first) > len(header):
        _report_uneven_rows(path, len(header), separator, findings)
    text = set(text_columns) & set(header)
    read = _csv_reader(path, separator, header)
    try:
        # One list for all columns: with one per column, pandas takes 12 kB of memory for each of them.
        frame = read(dtype=dict.fromkeys(text, str), na_values=["", *MISSING])
        unsure = [name for name in text if frame[name].isna().any()]  # in text, NA may be a name
        if unsure:
            frame[unsure] = read(dtype=str, usecols=unsure)[unsure]
        whole = _whole_columns(frame.head(LEADING_ZEROS_ROWS))
        written = read(dtype=str, usecols=whole, nrows=LEADING_ZEROS_ROWS) if whole else pd.DataFrame()
    except pd.errors.EmptyDataError:
        return pd.DataFrame(columns=header)
    except pd.errors.ParserError:
        _report_uneven_rows(path, len(header), separator, findings)
        raise
    frame.index = np.arange(2, len(frame) + 2)
    frame.attrs[LEADING_ZEROS] = [name for name in written if written[name].str.fullmatch(r"\s*0\d+\s*").any()]
    if separator != ",":
        for name in header:
            if name not in text and has_decimal_commas(frame[name]):
                frame[name] = commas_to_points(frame[name])
    blank = _blank_rows(frame)
    return frame[~blank].copy() if blank.any() else frame


def _blank_rows(frame: pd.DataFrame) -> np.ndarray:
    """(n,) whether all cells of a row are empty."""
    blank = np.ones(len(frame), bool)
    for name in frame:
        if not blank.any():
            break
        blank &= (frame[name].isna() | (frame[name] == "")).to_numpy(bool)
    return blank


def _csv_reader(path: Path, separator: str, header: list[str]) -> Callable[..., pd.DataFrame]:
    """`pandas.read_csv` with the settings that all columns share."""

    def read(**settings: Any) -> pd.DataFrame:
        return pd.read_csv(
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
            **settings,
        )

    return read


def _whole_columns(frame: pd.DataFrame) -> list[str]:
    """The columns of numbers without decimals. All columns at once: a table may have 100,000 of them."""
    numbers = frame.select_dtypes(["number", "bool"])
    values = numbers.to_numpy(np.float64)
    return [*numbers.columns[(np.isnan(values) | (values == np.floor(values))).all(axis=0)]]


def _guess_separator(file: TextIO, known: Iterable[str]) -> str:
    """The separator by which the header has more known names, then more names.

    Spreadsheets in countries with decimal commas write semicolons, and a name in the header may contain a comma. A tab
    is hardly ever part of a name.
    """

    def count_names(separator: str) -> tuple[int, int]:
        file.seek(0)
        try:
            names = next(csv.reader(file, delimiter=separator), [])
        except csv.Error:  # a name of more than 100,000 characters: the header has another separator
            return 0, 0
        return len({name.strip() for name in names} & set(known)), len(names)

    separator = max(",;\t", key=count_names)  # the first of equal ones
    file.seek(0)
    return separator


def _report_uneven_rows(path: Path, width: int, separator: str, findings: Findings) -> None:
    """Add a problem for each row with more or fewer cells than the header."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = enumerate(csv.reader(file, delimiter=separator), start=1)
        uneven = {number: len(cells) for number, cells in rows if len(cells) != width and any(cells)}
    for number, cells in uneven.items():
        what = f"it does not match the header: it has {count_noun(cells, 'cell')}, the header {width:,}"
        findings.add_problem(path, number, what, "give every row as many cells as the header has")
    if uneven:
        raise UnreadableError


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
