"""Stores larger than memory: rows of feature files, or of one memory-mapped file, read from disk on demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from .feature_files import (
    H5_SUFFIXES,
    FeatureFile,
    FeatureFileError,
    check_compatible,
    inspect_feature_file,
    lower_suffix,
    open_arrays,
    wrap_read_errors,
)

CHUNK, CHUNK_VALUES = 65_536, 2**25  # the most rows, and values in them, of one chunk
BLOCK_BYTES = 2**24  # of a file, that are read together
IN_MEMORY_BYTES = 2**30  # rows on disk that take up to this much are better loaded into memory


class RowsOnDisk:
    """A read-only array of rows on disk: shape, dtype, len() and rows by slice or by positions.

    Files are opened for one read and closed after it, so that thousands of files, threads and forks are no problem.
    """

    def __init__(self, sizes: Sequence[int], row_shape: tuple[int, ...], dtype: np.dtype):
        self.sizes = np.asarray(sizes, dtype=np.int64)  # (files,) rows of each
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)])  # (files + 1,)
        self.shape, self.dtype, self.ndim = (int(self.starts[-1]), *row_shape), dtype, 1 + len(row_shape)

    def __len__(self) -> int:
        return self.shape[0]

    def read_rows(self, file: int, numbers: np.ndarray, rows: np.ndarray) -> None:
        """Fill `rows` with the rows of a file that have these ascending numbers."""
        raise NotImplementedError

    def __getitem__(self, which: slice | int | Sequence[int] | np.ndarray) -> np.ndarray:
        """Return these rows in this order, in a new array. Each file is read once, as its rows lie on disk."""
        positions = np.arange(*which.indices(len(self))) if isinstance(which, slice) else np.asarray(which)
        if positions.dtype == bool:
            positions = np.flatnonzero(positions)
        if positions.ndim == 0:
            return self[positions[None]][0]
        rows = np.empty((len(positions), *self.shape[1:]), self.dtype)
        if len(positions) == 0:
            return rows
        if positions.min() < 0 or positions.max() >= len(self):
            raise IndexError(f"positions {positions.min()} to {positions.max()} of a store of {len(self)} rows")
        if (np.diff(positions) < 0).any():
            order = np.argsort(positions, kind="stable")
            rows[order] = self[positions[order]]
            return rows
        files = np.searchsorted(self.starts, positions, side="right") - 1
        bounds = [0, *(np.flatnonzero(np.diff(files)) + 1).tolist(), len(positions)]
        for a, b in pairwise(bounds):
            self.read_rows(int(files[a]), positions[a:b] - self.starts[files[a]], rows[a:b])
        return rows

    def load_if_small(self) -> Store:
        """Return the rows in memory, which is faster, if they take at most IN_MEMORY_BYTES; else the store itself."""
        row_bytes = self.dtype.itemsize * int(np.prod(self.shape[1:]))
        return self[:] if len(self) * row_bytes <= IN_MEMORY_BYTES else self


Store = np.ndarray | RowsOnDisk  # (N, ...) rows in memory or on disk


class FeatureFiles(RowsOnDisk):
    """Feature files, one per bag, as one store (N, d): any mix of `.npy`, `.npz`, `.h5` (`.hdf5`) and `.pt` (`.pth`).

    `.npy` and `.h5` files are read in place. An `.npz` or `.pt` file can only be read as a whole; the last one that
    was read stays in memory.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name, rows in {"a": 3, "b": 2}.items():
    ...     np.save(folder / f"{name}.npy", np.full((rows, 4), rows, "float16"))
    >>> files = FeatureFiles([folder / "a.npy", folder / "b.npy"])
    >>> files.shape, files.sizes.tolist(), files[[4, 0]].tolist()
    ((5, 4), [3, 2], [[2.0, 2.0, 2.0, 2.0], [3.0, 3.0, 3.0, 3.0]])
    """

    def __init__(self, files: Sequence[str | Path | FeatureFile]):  # a FeatureFile is not inspected again
        if len(files) == 0:
            raise InputError("no feature files were given: name at least one")
        self.files = [file if isinstance(file, FeatureFile) else inspect_feature_file(file) for file in files]
        first = self.files[0]
        for file in self.files:
            check_compatible(file, first)
        super().__init__([file.rows for file in self.files], (first.width,), first.dtype)
        self._last: tuple[int, np.ndarray] | None = None  # the last file that was read as a whole

    def read_rows(self, file: int, numbers: np.ndarray, rows: np.ndarray) -> None:
        info = self.files[file]
        if info.offset is not None:
            with wrap_read_errors(info.path):
                read_blocks(np.memmap(info.path, info.dtype, "r", info.offset, (info.rows, info.width)), numbers, rows)
        elif lower_suffix(info.path) in H5_SUFFIXES:
            with open_arrays(info.path) as arrays:
                read_blocks(arrays["features"], numbers, rows)
        else:
            last = self._last  # another thread may read another file meanwhile
            if last is None or last[0] != file:
                with open_arrays(info.path) as arrays:
                    self._last = last = file, np.asarray(arrays["features"])
            with wrap_read_errors(info.path):  # it may have changed
                rows[...] = last[1][numbers]

    def coordinates(self) -> np.ndarray | None:  # (N, 2)
        """Return the `coords` of all files; None if no file has any."""
        given = [file.coordinates for file in self.files]
        without = [file.path for file in self.files if file.coordinates is None]
        if 0 < len(without) < len(given):
            what, cure = "has no coords, other files do", "give every file one (x, y) per row, or none"
            raise FeatureFileError(without[0], what, cure)
        return None if without else np.concatenate([each for each in given if each is not None])


def read_blocks(features: Any, numbers: np.ndarray, rows: np.ndarray) -> None:
    """Fill `rows` from a mapped file or an h5 dataset, in blocks, which is fast for neighbours, without those that have
    none of these rows."""
    blocks = numbers // max(1, BLOCK_BYTES // rows[0].nbytes)
    bounds = [0, *(np.flatnonzero(np.diff(blocks)) + 1).tolist(), len(numbers)]
    for a, b in pairwise(bounds):
        first = int(numbers[a])
        rows[a:b] = features[first : int(numbers[b - 1]) + 1][numbers[a:b] - first]


class MappedRows(RowsOnDisk):
    """The rows of a memory-mapped file. On Unix they can be read even after the file was deleted or replaced."""

    def __init__(self, mapped: np.memmap):
        super().__init__([len(mapped)], mapped.shape[1:], mapped.dtype)
        self.mapped = mapped

    def read_rows(self, file: int, numbers: np.ndarray, rows: np.ndarray) -> None:
        read_blocks(self.mapped, numbers, rows)


def iterate_chunks(store: Store, positions: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the rows at these positions, in this order, one chunk at a time."""
    rows = max(1, min(CHUNK, CHUNK_VALUES // int(np.prod(store.shape[1:]))))
    for start in range(0, len(positions), rows):
        yield store[positions[start : start + rows]]
