"""Decoded pixels in the user cache: one .npy file a manifest and size, and a note of every file behind it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from ...data.stores import MappedRows, RowsOnDisk
from ...files import LOCK, hold_lock
from ..benchmarks.fetch import cache_folder

FORMAT = 5
DRAFT = ".draft"  # of a note
ZEROS = 2**20  # bytes written at a time

Notes = dict[str, list]  # path as the manifest writes it -> the fields of its Picture


class ImageCache:
    """What is kept of a manifest's images at one shape; empty where nothing is kept or it cannot be read.

    The note (JSON) is written after the pixels and names their file, so that a killed run leaves the
    old pair or the new one. Old pixels are deleted; who reads them has their file open and goes on. Pixels
    are locked from their making until a note names them: what is neither locked nor named was left by a
    kill, and goes when the next pixels are kept.
    """

    def __init__(self, manifest: Path, shape: tuple[int, int, int]):  # height, width, channels
        self.folder, self.shape = _folder(), shape
        self.place = self.folder / f"{_key(manifest)}-{'x'.join(map(str, shape))}.json"
        self.notes: Notes = {}  # in the order of the pixels
        self.pixels: np.ndarray | MappedRows | None = None  # (n, *shape) uint8
        self._read()

    @property
    def count(self) -> int:
        return 0 if self.pixels is None else len(self.pixels)

    def store(self) -> np.ndarray | RowsOnDisk:
        """The pixels, in memory where they are few."""
        return self.pixels.load_if_small() if isinstance(self.pixels, MappedRows) else self.pixels

    @contextmanager
    def replaced(self, count: int) -> Iterator[np.ndarray]:
        """An array to fill, on disk where the cache can be written; without `keep` it is given up."""
        shape, self.kept = (count, *self.shape), False
        with ExitStack() as stack:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                self.fresh = stack.enter_context(self._locked_file())
                self.filling = np.lib.format.open_memmap(self.fresh, "w+", np.uint8, shape)
                _take_room(self.fresh, self.filling.offset)
            except OSError:  # a home that cannot be written, a full disk: the pixels stay in memory
                self.fresh, self.filling = None, np.empty(shape, np.uint8)
                stack.close()
            yield self.filling

    def keep(self, notes: Notes) -> None:
        """The filled array takes the place of the old one; it is used all the same where its note has no room."""
        self.notes, self.pixels = notes, self.filling
        if self.fresh is None:
            return
        self.filling.flush()
        self.pixels = _opened(self.fresh)  # before others know of the file, and may replace it
        old = self._noted_file()
        with contextlib.suppress(OSError):
            draft = self.fresh.with_suffix(DRAFT)
            draft.write_text(json.dumps({"format": FORMAT, "pixels": self.fresh.name, "images": notes}))
            os.replace(draft, self.place)
            self.kept = True
            self._remove_leftovers(old)

    @contextmanager
    def _locked_file(self) -> Iterator[Path]:
        """Yield the path of a new file that no other process removes; it is removed at the end unless it is kept."""
        path = self.folder / f"{self.place.stem}-{secrets.token_hex(6)}.npy"
        with hold_lock(path.with_suffix(LOCK)):
            try:
                yield path
            finally:
                if not self.kept:
                    with contextlib.suppress(OSError):  # Windows keeps a file that is open
                        _unlink(path)

    def _remove_leftovers(self, old: Path | None) -> None:
        """Remove pixels of this manifest and shape that the note does not name and that no process is writing."""
        for path in self.folder.glob(f"{self.place.stem}-*.npy"):
            lock = contextlib.nullcontext() if path == old else hold_lock(path.with_suffix(LOCK))
            # The note is read under the lock: the process that wrote the file has then written its note.
            with contextlib.suppress(OSError), lock:
                if path != self._noted_file():
                    _unlink(path)

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # what is damaged is made again
            note = json.loads(self.place.read_text())
            pixels = _opened(self.folder / note["pixels"])
            fits = pixels.shape == (len(note["images"]), *self.shape) and pixels.dtype == np.uint8
            if note["format"] == FORMAT and fits:
                self.notes, self.pixels = note["images"], pixels

    def _noted_file(self) -> Path | None:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            return self.folder / json.loads(self.place.read_text())["pixels"]
        return None


def noted_images(manifest: Path) -> Notes:
    """What is known of a manifest's images, at whatever shape their pixels are kept."""
    notes: Notes = {}
    with contextlib.suppress(OSError):
        for place in sorted(_folder().glob(f"{_key(manifest)}-*.json")):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                note = json.loads(place.read_text())
                notes |= note["images"] if note["format"] == FORMAT else {}
    return notes


def _folder() -> Path:
    return cache_folder() / "images"


def _key(manifest: Path) -> str:
    place = manifest.parent.resolve() / manifest.name  # images are relative to the folder it was opened in
    return hashlib.blake2b(str(place).encode(), digest_size=12).hexdigest()


def _take_room(path: Path, start: int) -> None:
    """Room on disk for the file from `start` on: to fill a map of it ends the process where the disk is full."""
    with path.open("r+b", buffering=0) as file:
        end = file.seek(0, os.SEEK_END)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), start, end - start)
            return
        file.seek(start)  # macOS: what is written has room
        while (left := end - file.tell()) > 0:
            file.write(bytes(min(left, ZEROS)))


def _unlink(pixels: Path) -> None:
    for path in (pixels, pixels.with_suffix(DRAFT)):
        path.unlink(missing_ok=True)


def _opened(path: Path) -> MappedRows:
    return MappedRows(np.load(path, mmap_mode="r", allow_pickle=False))
