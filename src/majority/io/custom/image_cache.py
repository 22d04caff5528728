"""Decoded pixels in the user cache: one .npy file per manifest and image shape, and a note about every image file."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np

from ...data.stores import MappedRows, Store
from ...files import LOCK, cache_folder, hold_lock, read_json

FORMAT = 5
DRAFT = ".draft"  # suffix of a note that is being written
NOTE_FIELDS = 9  # of an ImageFileInfo; the last two may be None
ZEROS = 2**20  # bytes written at a time

Notes = dict[str, list[Any]]  # path as the manifest writes it -> the fields of its ImageFileInfo


class ImageCache:
    """The cached pixels of a manifest's images at one shape; empty if there are none or they cannot be read.

    The note (JSON) is written after the pixels and names their file, so that a killed process leaves either the old
    pair or the new one. Old pixels are deleted; a process that reads them has the file open and can continue. A file
    of pixels is locked until a note names it. A file that is neither locked nor named was left by a killed process, and
    is deleted when the next pixels are kept.
    """

    def __init__(self, manifest: Path, shape: tuple[int, int, int]):  # height, width, channels
        self.folder, self.shape = _folder(), shape
        self.note_path = self.folder / f"{_key(manifest)}-{'x'.join(map(str, shape))}.json"
        self.notes: Notes = {}  # in the order of the pixels
        self.pixels: np.ndarray | MappedRows | None = None  # (n, *shape) uint8
        self._new_array: np.ndarray = np.empty(0)
        self._new_path: Path | None = None  # None if the new array is in memory
        self._kept = False
        self._read()

    @property
    def count(self) -> int:
        return 0 if self.pixels is None else len(self.pixels)

    def store(self) -> Store | None:
        """The pixels, in memory if they are few."""
        return self.pixels.load_if_small() if isinstance(self.pixels, MappedRows) else self.pixels

    @contextmanager
    def replace(self, count: int) -> Iterator[np.ndarray]:
        """Yield a new array to fill, on disk if possible. It is discarded unless `keep` is called."""
        shape, self._kept = (count, *self.shape), False
        with ExitStack() as stack:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                path = stack.enter_context(self._locked_file())
                mapped = np.lib.format.open_memmap(path, "w+", np.uint8, shape)
                _allocate(path, mapped.offset)
                self._new_path, self._new_array = path, mapped
            except OSError:  # the folder cannot be written to, or the disk is full: the pixels stay in memory
                self._new_path, self._new_array = None, np.empty(shape, np.uint8)
                stack.close()
            yield self._new_array

    def keep(self, notes: Notes) -> None:
        """Replace the old pixels by the new array. If its note cannot be written, it is used but not kept on disk."""
        self.notes, self.pixels = notes, self._new_array
        if self._new_path is None:
            return
        if isinstance(self._new_array, np.memmap):
            self._new_array.flush()
        self.pixels = _open_pixels(self._new_path)  # before other processes know the file and may replace it
        old = self._noted_file()
        with contextlib.suppress(OSError):
            draft = self._new_path.with_suffix(DRAFT)
            draft.write_text(json.dumps({"format": FORMAT, "pixels": self._new_path.name, "images": notes}))
            os.replace(draft, self.note_path)
            self._kept = True
            self._remove_leftovers(old)

    @contextmanager
    def _locked_file(self) -> Iterator[Path]:
        """Yield the path of a new file that no other process removes; it is removed at the end unless it is kept."""
        path = self.folder / f"{self.note_path.stem}-{secrets.token_hex(6)}.npy"
        with hold_lock(path.with_suffix(LOCK)):
            try:
                yield path
            finally:
                if not self._kept:
                    with contextlib.suppress(OSError):  # Windows keeps a file that is open
                        _unlink(path)

    def _remove_leftovers(self, old: Path | None) -> None:
        """Remove pixels of this manifest and shape that the note does not name and that no process is writing."""
        for path in self.folder.glob(f"{self.note_path.stem}-*.npy"):
            lock = contextlib.nullcontext() if path == old else hold_lock(path.with_suffix(LOCK))
            # The note is read under the lock: the process that wrote the file has then written its note.
            with contextlib.suppress(OSError), lock:
                if path != self._noted_file():
                    _unlink(path)

    def _read(self) -> None:
        with contextlib.suppress(Exception):  # damaged files are made again; numpy raises many kinds of errors
            note = read_json(self.note_path)
            pixels = _open_pixels(self.folder / note["pixels"])
            images = _checked_notes(note)
            if pixels.shape == (len(images), *self.shape) and pixels.dtype == np.uint8:
                self.notes, self.pixels = images, pixels

    def _noted_file(self) -> Path | None:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            return self.folder / read_json(self.note_path)["pixels"]
        return None


def read_notes(manifest: Path) -> Notes:
    """The notes about a manifest's images, from the cached pixels of every shape."""
    notes: Notes = {}
    with contextlib.suppress(OSError):
        for path in sorted(_folder().glob(f"{_key(manifest)}-*.json")):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                note = read_json(path)
                notes |= _checked_notes(note)
    return notes


def _checked_notes(note: dict[str, Any]) -> Notes:
    """The notes about images. A ValueError or KeyError if they are damaged, or of another version."""
    images = note["images"]
    if note["format"] != FORMAT or not isinstance(images, dict):
        raise ValueError("another format")
    if not all(isinstance(fields, list) and len(fields) == NOTE_FIELDS for fields in images.values()):
        raise ValueError("damaged")
    for fields in images.values():
        if None in fields[:-2] or not {type(field) for field in fields} <= {int, bool, NoneType}:
            raise ValueError("damaged")
        if min(fields[2:4]) < 1:  # height and width
            raise ValueError("damaged")
        values = fields[-2:]  # lowest and highest of 16 bits: both or none
        if values != [None, None] and (None in values or not 0 <= values[0] <= values[1] <= 0xFFFF):
            raise ValueError("damaged")
    return images


def _folder() -> Path:
    return cache_folder() / "images"


def _key(manifest: Path) -> str:
    path = manifest.parent.resolve() / manifest.name  # paths of images are relative to the folder it was opened in
    return hashlib.blake2b(str(path).encode(), digest_size=12).hexdigest()


def _allocate(path: Path, start: int) -> None:
    """Reserve disk space for the file from `start` on. On a full disk, writing to a memory map kills the process."""
    with path.open("r+b", buffering=0) as file:
        end = file.seek(0, os.SEEK_END)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), start, end - start)
            return
        file.seek(start)  # macOS and Windows: writing zeros reserves the space
        while (left := end - file.tell()) > 0:
            file.write(bytes(min(left, ZEROS)))


def _unlink(pixels: Path) -> None:
    for path in (pixels, pixels.with_suffix(DRAFT)):
        path.unlink(missing_ok=True)


def _open_pixels(path: Path) -> MappedRows:
    return MappedRows(np.load(path, mmap_mode="r", allow_pickle=False))
