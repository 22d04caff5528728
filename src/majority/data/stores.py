"""Stores larger than memory: rows of feature files, or of one memory-mapped file, read from disk on demand.

Rows are read into new arrays instead of through a map: the touched pages of a map count as resident memory.
"""

from __future__ import annotations

import mmap
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from io import FileIO
from itertools import groupby, pairwise
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
    open_h5,
    read_whole,
    wrap_read_errors,
)

GAP_BYTES = 64 * 1024  # rows closer than this on disk are read together, with the bytes between them
SPAN_BYTES = 2**20  # the most that such a read holds in memory at a time
READ_BYTES = 2**30  # the most that one system call reads: some systems refuse 2 GiB and more
CHUNK, CHUNK_VALUES = 65_536, 2**25  # the most rows, and values in them, of one chunk
IN_MEMORY_BYTES = 2**30  # rows on disk that take up to this much are better loaded into memory

RowReader = Callable[[int, np.ndarray], object]  # (number of the first row, array to fill with the rows from there on)

_SEEK_LOCK = threading.Lock()


class RowsOnDisk:
    """A read-only array of rows on disk: shape, dtype, len() and rows by slice or by positions.

    Files are opened for one read and closed after it, so that thousands of files, threads and forks are no problem.
    """

    known_finite = False  # True: all rows were read and none holds NaN or infinity

    def __init__(self, sizes: Sequence[int], row_shape: tuple[int, ...], dtype: np.dtype):
        self.sizes = np.asarray(sizes, dtype=np.int64)  # (files,) rows of each
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)])  # (files + 1,)
        self.shape, self.dtype, self.ndim = (int(self.starts[-1]), *row_shape), dtype, 1 + len(row_shape)
        self.row_bytes = dtype.itemsize * int(np.prod(row_shape))

    def __len__(self) -> int:
        return self.shape[0]

    def open_rows(self, file: int) -> AbstractContextManager[RowReader]:
        raise NotImplementedError

    def __getitem__(self, which: slice | int | Sequence[int] | np.ndarray) -> np.ndarray:
        """Return these rows in this order, in a new array. Rows that are neighbours on disk are read together."""
        positions = np.arange(*which.indices(len(self))) if isinstance(which, slice) else np.asarray(which)
        if positions.dtype == bool:
            if positions.shape != (len(self),):
                raise IndexError(f"a mask of shape {positions.shape} does not fit a store of {len(self)} rows")
            positions = np.flatnonzero(positions)
        if positions.ndim == 0:
            return self[positions[None]][0]
        rows = np.empty((len(positions), *self.shape[1:]), self.dtype)
        if len(positions) == 0:
            return rows
        if positions.min() < 0 or positions.max() >= len(self):
            raise IndexError(f"positions {positions.min()} to {positions.max()} of a store of {len(self)} rows")
        steps = np.diff(positions)
        if np.count_nonzero(steps < 0) > len(positions) // 16:  # in no order: read them as they lie on disk
            order = np.argsort(positions, kind="stable")
            rows[order] = self[positions[order]]
            return rows
        files = np.searchsorted(self.starts, positions, side="right") - 1
        apart = (np.diff(files) != 0) | (steps < 0) | (steps * self.row_bytes > GAP_BYTES)
        spans = pairwise([0, *(np.flatnonzero(apart) + 1).tolist(), len(positions)])
        for file, spans_of_file in groupby(spans, key=lambda span: int(files[span[0]])):
            with self.open_rows(file) as read_rows:
                for a, b in spans_of_file:
                    self._read_span(read_rows, positions[a:b] - self.starts[file], rows[a:b])
        return rows

    def _read_span(self, read_rows: RowReader, numbers: np.ndarray, rows: np.ndarray) -> None:
        """Read rows of one file by their ascending numbers, each of them close to the next."""
        if (np.diff(numbers) == 1).all():
            read_rows(int(numbers[0]), rows)
            return
        rows_per_block, a = max(1, SPAN_BYTES // self.row_bytes), 0
        while a < len(numbers):
            first = int(numbers[a])
            b = int(np.searchsorted(numbers, first + rows_per_block))
            block = np.empty((int(numbers[b - 1]) - first + 1, *self.shape[1:]), self.dtype)
            read_rows(first, block)
            rows[a:b] = block[numbers[a:b] - first]
            a = b

    def load_if_small(self) -> Store:
        """Return the rows in memory, which is faster, if they take at most IN_MEMORY_BYTES; else the store itself."""
        return self[:] if len(self) * self.row_bytes <= IN_MEMORY_BYTES else self


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
        self.files: list[FeatureFile] = []
        for file in files:
            self.files.append(file if isinstance(file, FeatureFile) else inspect_feature_file(file))
            check_compatible(self.files[-1], self.files[0])
        first = self.files[0]
        super().__init__([file.rows for file in self.files], (first.width,), first.dtype)
        self._last: tuple[int, np.ndarray] | None = None  # the last file that was read as a whole

    def open_rows(self, file: int) -> AbstractContextManager[RowReader]:
        info = self.files[file]
        if info.offset is not None:
            return _open_npy_rows(info.path, info.offset)
        if lower_suffix(info.path) in H5_SUFFIXES:
            return _open_h5_rows(info.path)
        return self._open_whole(file)

    @contextmanager
    def _open_whole(self, file: int) -> Iterator[RowReader]:
        last = self._last
        if last is None or last[0] != file:
            info = self.files[file]
            last = file, read_whole(info.path)["features"]
            if last[1].shape != (info.rows, info.width):
                raise FeatureFileError(info.path, "changed while it was in use", "start again")
            self._last = last
        features = last[1]

        def read_rows(first: int, rows: np.ndarray) -> None:
            rows[...] = features[first : first + len(rows)]

        yield read_rows

    def coordinates(self) -> np.ndarray | None:  # (N, 2)
        """Return the `coords` of all files; None if no file has any."""
        given = [file.coordinates for file in self.files if file.coordinates is not None]
        if not given:
            return None
        if len(given) < len(self.files):
            without = next(file.path for file in self.files if file.coordinates is None)
            what, cure = "has no coords, other files do", "give every file one (x, y) per row, or none"
            raise FeatureFileError(without, what, cure)
        return np.concatenate(given)


class MappedRows(RowsOnDisk):
    """The rows of a memory-mapped file, read without touching its map.

    The file stays open as long as this object exists. On Unix the rows can be read even after the file was deleted
    or replaced.
    """

    def __init__(self, mapped: np.memmap):
        super().__init__([len(mapped)], mapped.shape[1:], mapped.dtype)
        self.path, self.offset = Path(str(mapped.filename)), mapped.offset  # numpy gives an absolute path
        self._file = self.path.open("rb", buffering=0)
        weakref.finalize(self, self._file.close)

    def __reduce__(self) -> tuple[Any, ...]:  # a copy in another process opens the file that is there at that time
        return _map_rows, (self.path, self.offset, self.shape, self.dtype)

    @contextmanager
    def open_rows(self, file: int) -> Iterator[RowReader]:
        with wrap_read_errors(self.path):
            yield _row_reader(self._file, self.path, self.offset)


def _map_rows(path: Path, offset: int, shape: tuple[int, ...], dtype: np.dtype) -> MappedRows:
    return MappedRows(np.memmap(path, dtype, "r", offset, shape))


def wrap_memmap(store: Store) -> Store:
    """Return `MappedRows` for a memory map of a whole file; any other store as it is."""
    if not isinstance(store, np.memmap) or not isinstance(store.base, mmap.mmap):  # in memory, or a slice of a map
        return store
    plain = store.mode in ("r", "r+") and store.flags.c_contiguous and store.filename is not None
    return MappedRows(store) if plain else store


def iterate_chunks(store: Store, positions: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the rows at these positions, in this order, one chunk at a time."""
    rows = max(1, min(CHUNK, CHUNK_VALUES // int(np.prod(store.shape[1:]))))
    for start in range(0, len(positions), rows):
        yield store[positions[start : start + rows]]


def write_npy(path: Path, store: Store, positions: np.ndarray) -> None:
    """Write the rows at these positions to an .npy file without loading all of them into memory."""
    shape, descr = (len(positions), *store.shape[1:]), np.lib.format.dtype_to_descr(store.dtype)
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
        for chunk in iterate_chunks(store, positions):
            file.write(np.ascontiguousarray(chunk).data)


@contextmanager
def _open_npy_rows(path: Path, offset: int) -> Iterator[RowReader]:
    """`offset` is the position of the first row in the file."""
    with wrap_read_errors(path), path.open("rb", buffering=0) as file:
        yield _row_reader(file, path, offset)


def _row_reader(file: FileIO, path: Path, offset: int) -> RowReader:
    """Read without using the file's own position: threads and forks may share the file."""

    def read_rows(first: int, rows: np.ndarray) -> None:
        buffer = rows.reshape(-1).view(np.uint8).data
        start = offset + first * rows[0].nbytes
        while len(buffer):
            read = _read_at(file, buffer[:READ_BYTES], start)
            if read == 0:
                raise InputError(f"{path} ends before row {first + len(rows)}: it was truncated, write it again")
            buffer, start = buffer[read:], start + read

    return read_rows


def _read_at(file: FileIO, buffer: memoryview, start: int) -> int:
    """Fill the buffer with bytes from `start` on; return how many were read."""
    if hasattr(os, "preadv"):
        return os.preadv(file.fileno(), [buffer], start)
    if hasattr(os, "pread"):  # macOS
        content = os.pread(file.fileno(), len(buffer), start)
        buffer[: len(content)] = content
        return len(content)
    with _SEEK_LOCK:  # Windows has neither; threads take turns there
        file.seek(start)
        return file.readinto(buffer) or 0


@contextmanager
def _open_h5_rows(path: Path) -> Iterator[RowReader]:
    with open_h5(path) as file:
        features = file["features"]

        def read_rows(first: int, rows: np.ndarray) -> None:
            features.read_direct(rows, np.s_[first : first + len(rows)])

        yield read_rows
