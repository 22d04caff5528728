"""A file of corrected labels: what `majority review` writes, after somebody filled in a column."""

from __future__ import annotations

from pathlib import Path

from ...errors import InputError
from ...files import check_regular
from .findings import Findings, UnreadableError
from .tables import TEXT_SUFFIXES, read_table

BAG, CORRECTED = "bag", "corrected_label"


def read_corrections(path: Path) -> dict[str, str]:
    """The label by bag of a table with the columns `bag` and `corrected_label`; rows without a label are left out."""
    if path.suffix.lower() not in TEXT_SUFFIXES:
        raise InputError(f"labels {path}: give winner, top2, or a .csv file of `majority review`")
    if not path.is_file():
        raise InputError(f"labels {path}: there is no such file: check the path")
    check_regular(path)
    findings = Findings()
    try:
        frame = read_table(path, (BAG, CORRECTED), findings)
    except UnreadableError:
        findings.raise_problems(path, for_classifier=True)
        raise
    for name in (BAG, CORRECTED):
        if name not in frame:
            raise InputError(f"{path} has no column {name}: give a file of `majority review`")
    frame = frame[frame[CORRECTED] != ""]
    if not len(frame):
        raise InputError(f"{path} corrects nothing: write the right labels into the column {CORRECTED}")
    twice = frame.index[frame[BAG].duplicated()]
    if len(twice):
        raise InputError(f"{path}, row {twice[0]}: bag {frame[BAG][twice[0]]} occurs twice: leave out a row")
    return dict(zip(frame[BAG].tolist(), frame[CORRECTED].tolist(), strict=True))
