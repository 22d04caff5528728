"""Stores larger than memory: rows of feature files, or of one mapped file, read from disk when asked for.

Rows are read into fresh arrays rather than mapped: the pages of a map that were touched count as resident memory.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from io import FileIO
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np

from ..errors import InputError
from .feature_files import (
    H5,
    FeatureFile,
    FeatureFileError,
    check_alike,
    ending,
    look,
    read_whole,
    with_h5,
    wrap_read_errors,
)

GAP_BYTES = 64 * 1024  # rows nearer than this on disk are read in one go, with what lies between them
SPAN_BYTES = 2**20  # of such a read held at a time
CHUNK, CHUNK_VALUES = 65_536, 2**25  # rows, and values in them, looked at together where all rows are
IN_MEMORY_BYTES = 2**30  # up to which rows on disk are better held in memory

Fill = Callable[[int, np.ndarray], object]  # (number of a first row, array to fill with the rows from it on)


class RowsOnDisk:
    """What a store in memory and one on disk share: shape, dtype, len() and rows by slice or by positions.

    Many files are opened for a read and closed after it, so that thousands of them, threads and forks do no harm.
    """

    in_place = True  # a store that says this of itself is never copied whole

    def __init__(self, sizes: Sequence[int], row_shape: tuple[int, ...], dtype: np.dtype):
        self.sizes = np.asarray(sizes, dtype=np.int64)  # (files,) rows of each
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)])  # (files + 1,)
        self.shape, self.dtype, self.ndim = (int(self.starts[-1]), *row_shape), dtype, 1 + len(row_shape)
        self.row_bytes = dtype.itemsize * int(np.prod(row_shape))

    def __len__(self) -> int:
        return self.shape[0]

    def opened(self, file: int) -> AbstractContextManager[Fill]:
        raise NotImplementedError

    def __getitem__(self, which: slice | Sequence[int]) -> np.ndarray:
        """These rows in this order, in a new array; rows that are neighbours on disk in one read."""
        positions = np.arange(*which.indices(len(self))) if isinstance(which, slice) else np.asarray(which)
        if positions.dtype == bool:
            if positions.shape != (len(self),):
                raise IndexError(f"a mask of shape {positions.shape} of a store of {len(self)} rows")
            positions = np.flatnonzero(positions)
        if positions.ndim == 0:
            return self[positions[None]][0]
        rows = np.empty((len(positions), *self.shape[1:]), self.dtype)
        if len(positions) == 0:
            return rows
        if positions.min() < 0 or positions.max() >= len(self):
            raise IndexError(f"positions {positions.min()} to {positions.max()} of a store of {len(self)} rows")
        steps = np.diff(positions)
        if np.count_nonzero(steps < 0) > len(positions) // 16:  # here and there: read as they lie on disk
            order = np.argsort(positions, kind="stable")
            rows[order] = self[positions[order]]
            return rows
        files = np.searchsorted(self.starts, positions, side="right") - 1
        apart = (np.diff(files) != 0) | (steps < 0) | (steps * self.row_bytes > GAP_BYTES)
        spans = pairwise([0, *(np.flatnonzero(apart) + 1).tolist(), len(positions)])
        for file, in_file in groupby(spans, key=lambda span: int(files[span[0]])):
            with self.opened(file) as fill:
                for a, b in in_file:
                    self._read(fill, positions[a:b] - self.starts[file], rows[a:b])
        return rows

    def _read(self, fill: Fill, numbers: np.ndarray, rows: np.ndarray) -> None:
        """Rows of one file by their ascending numbers, none of them far from the next."""
        if (np.diff(numbers) == 1).all():
            fill(int(numbers[0]), rows)
            return
        together, a = max(1, SPAN_BYTES // self.row_bytes), 0
        while a < len(numbers):
            first = int(numbers[a])
            b = int(np.searchsorted(numbers, first + together))
            block = np.empty((int(numbers[b - 1]) - first + 1, *self.shape[1:]), self.dtype)
            fill(first, block)
            rows[a:b] = block[numbers[a:b] - first]
            a = b

    def held_if_small(self) -> np.ndarray | RowsOnDisk:
        """The rows in memory where they take up to IN_MEMORY_BYTES, which is faster; else the store itself."""
        return self[:] if len(self) * self.row_bytes <= IN_MEMORY_BYTES else self


class FeatureFiles(RowsOnDisk):
    """Feature files, one a bag, as one store (N, d): `.npy`, `.npz`, `.h5` (or `.hdf5`) and `.pt` (or `.pth`), any mix.

    `.npy` and `.h5` files are read in place. An `.npz` or `.pt` file can only be read whole: it is, each time
    that another file was read before.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name, rows in {"a": 3, "b": 2}.items():
    ...     np.save(folder / f"{name}.npy", np.full((rows, 4), rows, "float16"))
    >>> files = FeatureFiles([folder / "a.npy", folder / "b.npy"])
    >>> files.shape, files.sizes.tolist(), files[[4, 0]].tolist()
    ((5, 4), [3, 2], [[2.0, 2.0, 2.0, 2.0], [3.0, 3.0, 3.0, 3.0]])
    """

    def __init__(self, files: Sequence[str | Path | FeatureFile]):  # a FeatureFile is not looked at again
        if len(files) == 0:
            raise InputError("no feature files were given: name at least one")
        self.files: list[FeatureFile] = []
        for file in files:
            self.files.append(file if isinstance(file, FeatureFile) else look(file))
            check_alike(self.files[-1], self.files[0])
        first = self.files[0]
        super().__init__([file.rows for file in self.files], (first.width,), first.dtype)
        self._last: tuple[int, np.ndarray] | None = None  # the last file that was read whole
        self.known_finite = False  # True: all of it was read, and no NaN found

    def opened(self, file: int) -> AbstractContextManager[Fill]:
        about = self.files[file]
        if about.offset is not None:
            return _npy_rows(about.path, about.offset)
        if ending(about.path) in H5:
            return _h5_rows(about.path)
        return self._whole(file)

    @contextmanager
    def _whole(self, file: int) -> Iterator[Fill]:
        held = self._last
        if held is None or held[0] != file:
            about = self.files[file]
            held = file, read_whole(about.path)["features"]
            if held[1].shape != (about.rows, about.width):
                raise FeatureFileError(about.path, "changed while it was in use", "start again")
            self._last = held

        def fill(first: int, rows: np.ndarray) -> None:
            rows[...] = held[1][first : first + len(rows)]

        yield fill

    def coordinates(self) -> np.ndarray | None:  # (N, 2)
        """The files' `coords`; None where no file has them."""
        without = [file.path for file in self.files if file.coordinates is None]
        if len(without) == len(self.files):
            return None
        if without:
            what, cure = "has no coords, other files do", "give every file an (x, y) a row, or none"
            raise FeatureFileError(without[0], what, cure)
        return np.concatenate([file.coordinates for file in self.files])


class MappedRows(RowsOnDisk):
    """The rows of a mapped file, read without touching its map.

    The file stays open for as long as these rows are there: they can be read though it was deleted or replaced.
    """

    def __init__(self, mapped: np.memmap):
        super().__init__([len(mapped)], mapped.shape[1:], mapped.dtype)
        self.path, self.offset = Path(mapped.filename), mapped.offset  # a whole path: numpy's
        self._file = self.path.open("rb", buffering=0)
        weakref.finalize(self, self._file.close)

    def __reduce__(self):  # a copy in another process reads the file that is at its place
        return _mapped_rows, (self.path, self.offset, self.shape, self.dtype)

    @contextmanager
    def opened(self, file: int) -> Iterator[Fill]:
        with wrap_read_errors(self.path):
            yield _filler(self._file, self.path, self.offset)


def _mapped_rows(path: Path, offset: int, shape: tuple[int, ...], dtype: np.dtype) -> MappedRows:
    return MappedRows(np.memmap(path, dtype, "r", offset, shape))


def rows_of(store):
    """What to take rows from: a store in memory or on disk as it is, a mapped file through its `MappedRows`."""
    whole_file = isinstance(store, np.memmap) and isinstance(store.base, mmap.mmap)  # not a part of one
    plain = whole_file and store.mode in ("r", "r+") and store.flags.c_contiguous and store.filename is not None
    return MappedRows(store) if plain else store


def on_disk(store) -> bool:
    return getattr(store, "in_place", False)


def chunks(store, positions: np.ndarray) -> Iterator[np.ndarray]:
    """The rows at these positions, in this order, some at a time."""
    together = max(1, min(CHUNK, CHUNK_VALUES // int(np.prod(store.shape[1:]))))
    for start in range(0, len(positions), together):
        yield store[positions[start : start + together]]


def write_npy(path: Path, store, positions: np.ndarray) -> None:
    """The rows at these positions as an .npy file, never all of them in memory."""
    shape, descr = (len(positions), *store.shape[1:]), np.lib.format.dtype_to_descr(store.dtype)
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
        for block in chunks(store, positions):
            file.write(np.ascontiguousarray(block))


@contextmanager
def _npy_rows(path: Path, offset: int) -> Iterator[Fill]:
    """`offset`: where the first row begins in the file."""
    with wrap_read_errors(path), path.open("rb", buffering=0) as file:
        yield _filler(file, path, offset)


def _filler(file: FileIO, path: Path, offset: int) -> Fill:
    """Reads at a place of its own each time: threads and forks may share the file."""

    def fill(first: int, rows: np.ndarray) -> None:
        place = memoryview(rows.reshape(-1).view(np.uint8))
        start = offset + first * rows[0].nbytes
        while len(place):
            read = os.preadv(file.fileno(), [place], start)
            if read == 0:
                raise InputError(f"{path} ends before row {first + len(rows)}: it was cut short, write it again")
            place, start = place[read:], start + read

    return fill


@contextmanager
def _h5_rows(path: Path) -> Iterator[Fill]:
    with with_h5(path) as file:
        features = file["features"]
        yield lambda first, rows: features.read_direct(rows, np.s_[first : first + len(rows)])
