"""Blocks: bags of your own in pieces, which different processes or machines read and classify one by one."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ...data.feature_files import inspect_feature_file
from ..embedding import EMBEDDING
from .findings import Findings, UnreadableError
from .folders import INSTANCES, find_files, image_rows, is_image_folder
from .options import Block, ReadOptions
from .parquet import RowGroup, is_parquet, parquet_files, row_groups
from .rows import read_frame

BLOCK_ROWS = 100_000
Unit = TypeVar("Unit")  # a file, or a row group of one


@dataclass(frozen=True)
class Division:
    """The blocks of a source. They depend on its files and the number of rows only, not on who reads them."""

    blocks: tuple[Block, ...]
    fingerprint: str  # of the names, sizes and times of the files
    whole_bags: bool  # no bag has instances in two blocks


def divide(source: Path, options: ReadOptions, rows: int = BLOCK_ROWS) -> Division:
    """Blocks of about this many instances: whole feature files, whole row groups of Parquet, or rows of other tables.

    Of feature files and Parquet, only names, sizes and one header or footer are read.
    """
    findings = Findings()
    try:
        if is_parquet(source):
            files, units = parquet_files(source), row_groups(source)
            blocks = [_rows_of_parquet(group) for group in _groups(units, [unit.rows for unit in units], rows)]
        elif source.is_dir() and not is_image_folder(source):
            files = find_files(source, findings)
            blocks = [Block(files=tuple(file.name for file in group)) for group in _groups(files, _sizes(files), rows)]
            files += [source / name for name in (INSTANCES, EMBEDDING) if (source / name).exists()]
        else:
            files = [source]
            total = len(image_rows(source, findings) if source.is_dir() else read_frame(source, options, findings))
            blocks = [Block(start=start, rows=min(rows, total - start)) for start in range(0, total, rows)]
    except UnreadableError:
        blocks = []
    findings.raise_problems(source)
    whole_bags = len(blocks) < 2 or bool(blocks[0].files)
    return Division(tuple(blocks), _fingerprint(source, files), whole_bags)


def _rows_of_parquet(group: list[RowGroup]) -> Block:
    return Block(
        start=group[0].start, rows=sum(unit.rows for unit in group), row_groups=tuple(unit[:2] for unit in group)
    )


def _sizes(files: list[Path]) -> list[float]:
    """About how many rows each file has: files are not opened, so from their sizes and the first file."""
    first = inspect_feature_file(files[0])
    rows_per_byte = first.rows / max(1, files[0].stat().st_size)
    return [file.stat().st_size * rows_per_byte for file in files]


def _groups(units: Sequence[Unit], sizes: Iterable[float], limit: int) -> Iterator[list[Unit]]:
    """Neighbours together, up to this size; a larger one alone."""
    group: list[Unit] = []
    total = 0.0
    for unit, size in zip(units, sizes, strict=True):
        if group and total + size > limit:
            yield group
            group, total = [], 0.0
        group.append(unit)
        total += size
    if group:
        yield group


def _fingerprint(source: Path, files: Iterable[Path]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for file in files:
        facts = file.stat()
        digest.update(repr((os.path.relpath(file, source), facts.st_size, facts.st_mtime_ns)).encode())
    return digest.hexdigest()
