"""A file of corrected labels: what `majority review` writes, after somebody filled in a column."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from ...errors import InputError
from .tables import TEXT_SUFFIXES, read_table

BAG, CORRECTED = "bag", "corrected_label"


def read_filled(
    path: Path, columns: tuple[str, ...], option: str, made_by: str, optional: tuple[str, ...] = ()
) -> pd.DataFrame:
    """A table that people have filled in, with these columns as text; `made_by` is the command that wrote it."""
    if path.suffix.lower() not in TEXT_SUFFIXES or not path.exists():
        raise InputError(f"{option} {path}: there is no such .csv file: give a file of {made_by}")
    frame = read_table(path, (*columns, *optional))
    for name in columns:
        if name not in frame:
            raise InputError(f"{path} has no column {name}: give a file of {made_by}")
    return frame


def read_corrections(path: Path) -> dict[str, str]:
    """The label by bag of a table with the columns `bag` and `corrected_label`; rows without a label are left out."""
    frame = read_filled(path, (BAG, CORRECTED), "labels", "`majority review`")
    frame = frame[frame[CORRECTED] != ""]
    if not len(frame):
        raise InputError(f"{path} corrects nothing: write the right labels into the column {CORRECTED}")
    twice = frame.index[frame[BAG].duplicated()]
    if len(twice):
        raise InputError(f"{path}, row {twice[0]}: bag {frame[BAG][twice[0]]} occurs twice: leave out a row")
    return dict(zip(frame[BAG].tolist(), frame[CORRECTED].tolist(), strict=True))
