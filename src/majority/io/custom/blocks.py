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
from .findings import Findings
from .folders import INSTANCES, find_files, image_rows, is_image_folder
from .options import Block, ReadOptions
from .rows import read_frame
from .tables import is_parquet, parquet_files

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
    if is_parquet(source):
        files, blocks, start = parquet_files(source), [], 0
        groups = [group for file in files for group in _row_groups(file, file.name if source.is_dir() else "")]
        for group in _groups(groups, [rows for _, rows in groups], rows):
            blocks.append(Block((), start, sum(rows for _, rows in group), tuple(place for place, _ in group)))
            start += blocks[-1].rows
    elif source.is_dir() and not is_image_folder(source):
        files = find_files(source)
        per_byte = inspect_feature_file(files[0]).rows / max(1, files[0].stat().st_size)
        sizes = [file.stat().st_size * per_byte for file in files]  # about; the others are not opened
        blocks = [Block(tuple(file.name for file in group)) for group in _groups(files, sizes, rows)]
        files += [source / name for name in (INSTANCES, EMBEDDING) if (source / name).exists()]
    else:
        files = [source]
        total = len(image_rows(source, Findings()) if source.is_dir() else read_frame(source, options))
        blocks = [Block((), start, min(rows, total - start)) for start in range(0, total, rows)]
    whole_bags = len(blocks) < 2 or bool(blocks[0].files)
    return Division(tuple(blocks), _fingerprint(source, files), whole_bags)


def _row_groups(file: Path, name: str) -> Iterator[tuple[tuple[str, int], int]]:
    """The name and number, and the rows, of each row group."""
    import pyarrow.parquet as pq

    facts = pq.read_metadata(file)
    for number in range(facts.num_row_groups):
        yield (name, number), facts.row_group(number).num_rows


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
