"""Decoded pixels in the user cache: one .npy file a manifest and size, and a note of every file behind it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ..files import cache_folder

FORMAT = 1


class ImageCache:
    """What is kept of a manifest's images at one size; empty where nothing is kept or it cannot be read.

    The note (JSON) is written after the pixels and names their file, so that a killed run leaves the
    old pair or the new one.
    """

    def __init__(self, manifest: Path, size: tuple[int, int] | None, channels: int | None):
        key = hashlib.blake2b(repr((str(manifest.resolve()), size, channels)).encode(), digest_size=12).hexdigest()
        self.folder = cache_folder() / "images"
        self.place = self.folder / f"{key}.json"
        self.notes: dict[str, list] = {}  # path -> bytes, changed_ns, height, width, grey; in the order of the pixels
        self.pixels: np.ndarray | None = None  # (n, height, width, channels) uint8, mapped
        self._read()

    @property
    def count(self) -> int:
        return 0 if self.pixels is None else len(self.pixels)

    def rows(self, shape: tuple[int, int, int]) -> dict[str, int]:
        """Where each path's pixels stand, if they have this shape."""
        fits = self.pixels is not None and self.pixels.shape[1:] == shape
        return {name: row for row, name in enumerate(self.notes)} if fits else {}

    @contextmanager
    def replaced(self, shape: tuple[int, int, int, int]) -> Iterator[np.ndarray]:
        """An array to fill, on disk where the cache can be written; without `keep` it is given up."""
        self.fresh = self.folder / f"{self.place.stem}-{secrets.token_hex(6)}.npy"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.filling = np.lib.format.open_memmap(self.fresh, "w+", np.uint8, shape)
        except OSError:  # a home that cannot be written: the pixels stay in memory
            self.fresh, self.filling = None, np.empty(shape, np.uint8)
        self.kept = False
        try:
            yield self.filling
        finally:
            if self.fresh and not self.kept:
                self.fresh.unlink(missing_ok=True)

    def keep(self, notes: dict[str, list]) -> None:
        """The filled array takes the place of the old one."""
        self.kept, self.notes, self.pixels = True, notes, self.filling
        if self.fresh is None:
            return
        self.filling.flush()
        old = self._noted_file()
        draft = self.fresh.with_suffix(".json")
        draft.write_text(json.dumps({"format": FORMAT, "pixels": self.fresh.name, "images": notes}))
        os.replace(draft, self.place)
        if old is not None:
            with contextlib.suppress(OSError):
                old.unlink()
        self.pixels = np.load(self.fresh, mmap_mode="r")

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # what is damaged is made again
            note = json.loads(self.place.read_text())
            pixels = np.load(self.folder / note["pixels"], mmap_mode="r", allow_pickle=False)
            if note["format"] == FORMAT and len(pixels) == len(note["images"]) and pixels.dtype == np.uint8:
                self.notes, self.pixels = note["images"], pixels

    def _noted_file(self) -> Path | None:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            return self.folder / json.loads(self.place.read_text())["pixels"]
        return None
