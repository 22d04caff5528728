"""Decoded pixels in the user cache: one .npy file per manifest and image shape, and a note about every image file."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ...data.stores import MappedRows, Store
from ...files import cache_folder, read_json

FORMAT = 6
DRAFT = ".draft"  # suffix of a note that is being written
NOTE_FIELDS = 9  # of an ImageFileInfo
ZEROS = 2**20  # bytes written at a time
ABANDONED = 24 * 3600  # seconds after which pixels that no note names are those of a killed process

Notes = dict[str, list[Any]]  # path as the manifest writes it -> the fields of its ImageFileInfo


class ImageCache:
    """The cached pixels of a manifest's images at one shape; empty if there are none or they cannot be read.

    The note (JSON) is written after the pixels and names their file, so that a killed process leaves either the old
    pair or the new one. Old pixels are deleted; a process that reads them has the file open and can continue.
    """

    def __init__(self, manifest: Path, shape: tuple[int, int, int]):  # height, width, channels
        self.folder, self.shape = _folder(), shape
        self.note_path = self.folder / f"{_key(manifest)}-{'x'.join(map(str, shape))}.json"
        self.notes: Notes = {}  # in the order of the pixels
        self.pixels: np.ndarray | MappedRows | None = None  # (n, *shape) uint8
        self._new: np.ndarray = np.empty(0)
        with contextlib.suppress(Exception):  # damaged files are made again; numpy raises many kinds of errors
            note = read_json(self.note_path)
            notes, pixels = _images_of(note), _open_pixels(self.folder / note["pixels"])
            if pixels.shape == (len(notes), *shape) and pixels.dtype == np.uint8:
                self.notes, self.pixels = notes, pixels

    @property
    def count(self) -> int:
        return 0 if self.pixels is None else len(self.pixels)

    def store(self) -> Store | None:
        """The pixels, in memory if they are few."""
        return self.pixels.load_if_small() if isinstance(self.pixels, MappedRows) else self.pixels

    @contextmanager
    def replace(self, count: int) -> Iterator[np.ndarray]:
        """Yield a new array to fill, on disk if possible. It is discarded unless `keep` is called."""
        shape, path = (count, *self.shape), self.folder / f"{self.note_path.stem}-{secrets.token_hex(6)}.npy"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            mapped = np.lib.format.open_memmap(path, "w+", np.uint8, shape)
            _allocate(path, mapped.offset)
            self._new = mapped
        except OSError:  # the folder cannot be written to, or the disk is full: the pixels stay in memory
            self._new = np.empty(shape, np.uint8)
        try:
            yield self._new
        finally:
            if self._noted_file() != path:
                _unlink(path)

    def keep(self, notes: Notes) -> None:
        """Replace the old pixels by the new array. If its note cannot be written, it is used but not kept on disk."""
        self.notes, self.pixels = notes, self._new
        if not isinstance(self._new, np.memmap):
            return
        self._new.flush()
        path, old = Path(str(self._new.filename)), self._noted_file()
        self.pixels = _open_pixels(path)  # before other processes know the file and may replace it
        with contextlib.suppress(OSError):
            draft = path.with_suffix(DRAFT)
            draft.write_text(json.dumps({"format": FORMAT, "pixels": path.name, "images": notes}))
            os.replace(draft, self.note_path)
            if old is not None:
                _unlink(old)
            for other in self.folder.glob(f"{self.note_path.stem}-*.npy"):
                if other != path and time.time() - other.stat().st_mtime > ABANDONED:
                    _unlink(other)

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
                notes |= _images_of(read_json(path))
    return notes


def _images_of(note: dict[str, Any]) -> Notes:
    images: Notes = note["images"]
    if note["format"] != FORMAT or any(len(fields) != NOTE_FIELDS for fields in images.values()):
        raise ValueError("another format")
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
        with contextlib.suppress(OSError):  # Windows keeps a file that is open
            path.unlink(missing_ok=True)


def _open_pixels(path: Path) -> MappedRows:
    return MappedRows(np.load(path, mmap_mode="r", allow_pickle=False))
