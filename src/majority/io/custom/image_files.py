"""ImageFiles: image files as a store that decodes on demand. For an encoder, which needs every image once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from ...cores import usable_cores
from ...data.stores import RowsOnDisk

Shape = tuple[int, int, int]  # height, width, channels


class ImageFiles(RowsOnDisk):
    """Images (N, height, width, channels) uint8, decoded each time they are asked for. Nothing is kept."""

    def __init__(self, paths: Sequence[Path], shape: Shape, read: Callable[[Path, Shape], np.ndarray]):
        super().__init__([len(paths)], shape, np.dtype(np.uint8))
        self.paths, self.image_shape, self.read = paths, shape, read

    def __getitem__(self, which: slice | int | Sequence[int] | np.ndarray) -> np.ndarray:
        positions = np.arange(len(self))[which]
        if np.ndim(positions) == 0:
            return self.read(self.paths[int(positions)], self.image_shape)
        rows = np.empty((len(positions), *self.image_shape), np.uint8)

        def fill(row: int) -> None:
            rows[row] = self.read(self.paths[positions[row]], self.image_shape)

        with ThreadPoolExecutor(usable_cores()) as pool:
            list(pool.map(fill, range(len(positions))))  # the list raises the first error
        return rows
