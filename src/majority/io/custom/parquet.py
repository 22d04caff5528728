"""Parquet tables: one file, or a folder of files, which are read as a whole or by row groups."""

from __future__ import annotations

from collections.abc import Collection
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...data.feature_files import SUFFIXES as FEATURE_SUFFIXES
from ...data.feature_files import lower_suffix
from ...files import check_expansion, check_regular
from .findings import ProblemError
from .options import Block

if TYPE_CHECKING:
    import pandas as pd

LEFT_OUT = "left_out"  # attribute of a frame: column -> what it contains


class RowGroup(NamedTuple):
    """A row group of a Parquet table, which may lie in several files."""

    file: str  # its name in the folder; "" if the table is one file
    number: int
    start: int  # the position of its first row in the table
    rows: int


def is_parquet(source: Path) -> bool:
    """Whether this is a Parquet file or a folder of Parquet files and no feature files."""
    if not source.is_dir():
        return source.suffix.lower() == ".parquet"
    return bool(parquet_files(source)) and not any(lower_suffix(path) in FEATURE_SUFFIXES for path in _visible(source))


def parquet_files(source: Path) -> list[Path]:
    """The files of a Parquet table in the order of their names. Hidden ones are left out, as other programs do."""
    if not source.is_dir():
        return [source]
    return sorted(path for path in _visible(source) if lower_suffix(path) == ".parquet")


def _visible(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if not path.name.startswith((".", "_"))]


def row_groups(source: Path) -> list[RowGroup]:
    import pyarrow.parquet as pq

    groups: list[RowGroup] = []
    start = 0
    for file in parquet_files(source):
        facts = pq.read_metadata(file)
        for number in range(facts.num_row_groups):
            rows = facts.row_group(number).num_rows
            groups.append(RowGroup(file.name if source.is_dir() else "", number, start, rows))
            start += rows
    return groups


def read_parquet(path: Path, named: Collection[str], block: Block | None) -> pd.DataFrame:
    """The columns of numbers, text, and true or false; `attrs` has the others. Those that are `named` are needed."""
    import pandas as pd

    if block is None:
        frames = [_read_file(file, named, None) for file in parquet_files(path)]
    else:
        chosen = groupby(block.row_groups, key=lambda group: group[0])
        frames = [_read_file(path / file, named, [number for _, number in of]) for file, of in chosen]
    frame = frames[0] if len(frames) == 1 else pd.concat(frames)
    first = 1 if block is None else 1 + block.start
    frame.index = pd.RangeIndex(first, first + len(frame))
    return frame


def _read_file(path: Path, named: Collection[str], numbers: list[int] | None) -> pd.DataFrame:
    """All rows of a file, or those of these row groups."""
    import pandas as pd
    import pyarrow.parquet as pq

    check_regular(path)
    file = pq.ParquetFile(path)
    facts = file.metadata
    rows = facts.num_rows if numbers is None else sum(facts.row_group(number).num_rows for number in numbers)
    check_expansion(path, rows * facts.num_columns * 8)  # repeated values take no space in the file
    table = file.read() if numbers is None else file.read_row_groups(numbers)
    table.validate(full=True)  # text of a damaged file may not be UTF-8, which pandas finds out when it reads a cell
    table, left_out = _plain_columns(table, path, named)
    frame = table.to_pandas()
    if not isinstance(frame.index, pd.RangeIndex):  # an index that is in the file: its levels become columns
        frame = frame.reset_index([name for name in frame.index.names if name is not None and name not in frame])
    frame.columns = pd.Index([str(name).strip() or f"unnamed{i}" for i, name in enumerate(frame.columns, start=1)])
    frame.attrs[LEFT_OUT] = left_out
    return frame


def _plain_columns(table: Any, path: Path, named: Collection[str]) -> tuple[Any, dict[str, str]]:
    """The table with columns of simple types only, and what the others contain. Some programs write text as bytes."""
    import pyarrow as pa

    left_out: dict[str, str] = {}
    for name, kind in zip(table.column_names, table.schema.types, strict=True):
        is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
        plain = pa.string() if is_bytes and name in named else pa.float64() if pa.types.is_decimal(kind) else None
        plain = pa.float32() if pa.types.is_float16(kind) else plain  # pandas cannot group by these
        if plain is not None:
            table = table.set_column(table.schema.get_field_index(name), name, table.column(name).cast(plain))
        elif pa.types.is_nested(kind) or pa.types.is_temporal(kind) or is_bytes:
            left_out[name] = "lists" if pa.types.is_nested(kind) else "bytes" if is_bytes else "dates or times"
            if name in named:
                raise ProblemError(
                    path, 1, f"column {name} contains {left_out[name]}", "write one value into each cell"
                )
    return table.select([name for name in table.column_names if name not in left_out]), left_out
