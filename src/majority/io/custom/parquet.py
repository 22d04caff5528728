"""Parquet tables: one file, or a folder of files, which are read as a whole or by row groups."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...data.feature_files import SUFFIXES as FEATURE_SUFFIXES
from ...data.feature_files import lower_suffix
from ...files import check_expansion, check_regular
from .names import column_names
from .read_options import Block

if TYPE_CHECKING:
    import pandas as pd


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
    suffixes = {lower_suffix(path) for path in source.iterdir() if not path.name.startswith((".", "_"))}
    return ".parquet" in suffixes and not suffixes & {*FEATURE_SUFFIXES}


def parquet_files(source: Path) -> list[Path]:
    """The files of a Parquet table in the order of their names. Hidden ones are left out, as other programs do."""
    if not source.is_dir():
        return [source]
    visible = (path for path in source.iterdir() if not path.name.startswith((".", "_")))
    return sorted(path for path in visible if lower_suffix(path) == ".parquet")


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


def read_parquet(path: Path, block: Block | None) -> pd.DataFrame:
    import pandas as pd

    if block is None:
        frames = [_parquet_frame(file) for file in parquet_files(path)]
    else:
        chosen = groupby(block.row_groups, key=lambda group: group[0])
        frames = [_parquet_frame(path / file, [number for _, number in groups]) for file, groups in chosen]
    frame = frames[0] if len(frames) == 1 else pd.concat(frames)
    first = 1 if block is None else 1 + block.start
    frame.index = np.arange(first, first + len(frame))
    return frame


def _parquet_frame(path: Path, numbers: list[int] | None = None) -> pd.DataFrame:
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
    frame = table.to_pandas()
    if not isinstance(frame.index, pd.RangeIndex):  # an index that is in the file: its levels become columns
        frame = frame.reset_index([name for name in frame.index.names if name is not None and name not in frame])
    frame.columns = pd.Index(column_names(frame.columns))
    halves = [name for name in frame.columns[~frame.columns.duplicated(keep=False)] if frame[name].dtype == np.float16]
    return frame.astype(dict.fromkeys(halves, np.float32))  # pandas cannot group by float16
