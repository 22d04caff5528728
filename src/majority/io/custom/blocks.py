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
        import pyarrow.parquet as pq

        files, blocks, start = parquet_files(source), [], 0
        metadata = [(file.name if source.is_dir() else "", pq.read_metadata(file)) for file in files]
        places = [(name, number) for name, facts in metadata for number in range(facts.num_row_groups)]
        sizes = [facts.row_group(number).num_rows for _, facts in metadata for number in range(facts.num_row_groups)]
        for group, size in _groups(places, sizes, rows):
            blocks.append(Block((), start, size, tuple(group)))
            start += size
    elif source.is_dir() and not is_image_folder(source):
        files = find_files(source)
        per_byte = inspect_feature_file(files[0]).rows / max(1, files[0].stat().st_size)
        sizes = [round(file.stat().st_size * per_byte) for file in files]  # about; the others are not opened
        blocks = [Block(tuple(file.name for file in group)) for group, _ in _groups(files, sizes, rows)]
        files += [source / name for name in (INSTANCES, EMBEDDING) if (source / name).exists()]
    else:
        files = [source]
        total = len(image_rows(source, Findings()) if source.is_dir() else read_frame(source, options))
        blocks = [Block((), start, min(rows, total - start)) for start in range(0, total, rows)]
    whole_bags = len(blocks) < 2 or bool(blocks[0].files)
    return Division(tuple(blocks), _fingerprint(source, files), whole_bags)


def _groups(units: Sequence[Unit], sizes: Iterable[int], limit: int) -> Iterator[tuple[list[Unit], int]]:
    """Neighbours together, up to this size; a larger one alone. With the size of each group."""
    group: list[Unit] = []
    total = 0
    for unit, size in zip(units, sizes, strict=True):
        if group and total + size > limit:
            yield group, total
            group, total = [], 0
        group.append(unit)
        total += size
    if group:
        yield group, total


def _fingerprint(source: Path, files: Iterable[Path]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for file in files:
        facts = file.stat()
        digest.update(repr((os.path.relpath(file, source), facts.st_size, facts.st_mtime_ns)).encode())
    return digest.hexdigest()
