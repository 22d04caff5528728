"""The images that a table names: found, inspected, decoded in parallel, and cached."""

from __future__ import annotations

import functools
import os
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd

from ...cores import usable_cores
from ...data.stores import RowsOnDisk, Store
from ..image_summary import ImageFileSummary
from .checks import Found, add_found
from .content import Content
from .findings import Findings, Problem, cells
from .image_cache import ImageCache, read_notes
from .images import NO_IMAGE, ImageFileInfo, decode, read_header, read_image, reason_of
from .options import ReadOptions

MAX_KEPT_SIZE = 256  # pixels per side: images that all have the same size, up to this one, keep it
DEFAULT_SIZE = 64  # pixels per side
FEW_LEVELS = 64  # of 256: what remains of a 14-bit camera image that was written as 16 bits
NOT_READ = {  # field of an ImageFileInfo -> what the image has, and the cure
    "pages": ("further pages", "only the first page is used; write the page that you need into its own file"),
    "bands": (
        "bands besides grey or colour, such as alpha or infrared",
        "these are not used; write images of the three bands that distinguish the classes",
    ),
}

Shape = tuple[int, int, int]  # height, width, channels


def read_images(
    frame: pd.DataFrame, order: np.ndarray, content: Content, options: ReadOptions, findings: Findings
) -> None:
    """Put the images into the content: the pixels at one size, or problems with those that cannot be used."""
    which, paths = pd.factorize(frame["path"], sort=True)
    size, channels = options.image_size, options.channels
    if options.encoder_shape is not None:
        size, channels = options.encoder_shape[:2], options.encoder_shape[2]
    images = Images(content.file, [*paths])
    content.index, content.paths = which[order], np.asarray(paths, object)
    content.store = images.load(size, channels, on_demand=options.encoder_shape is not None)
    add_found(_unusable(images, frame), findings)
    if content.store is not None:
        files = [images.files[number] for number in range(len(paths))]
        content.image_files = ImageFileSummary.of(files)
        add_found(_changes(images.names, files, content.store.shape[1:], options), findings)
        add_found(_losses(images.names, files), findings)


class Images:
    """The images that a manifest names, relative to it. What a step finds out is in `files` and `errors`.

    Without a size, images that all have the same size of up to 256 pixels per side keep it; otherwise all become
    64 x 64. Without channels, there is 1 channel if all images are grey, otherwise 3. The pixels are kept in the user
    cache and are read from there; small sets are loaded into memory.
    """

    def __init__(self, manifest: Path, names: Sequence[str]):
        self.manifest, self.names = manifest, names
        self.paths = [manifest.parent] * len(names)
        self.files: dict[int, ImageFileInfo] = {}  # of those that could be opened
        self.errors: dict[int, str] = {}  # the reasons why others cannot be used
        self.similar = functools.cache(_names_by_spelling)

    def load(self, size: tuple[int, int] | None, channels: int | None, on_demand: bool) -> Store | None:
        """All images at one size; None if some cannot be used. On demand, files are decoded when they are used."""
        self._inspect()
        if not self.files:
            return None
        height, width = size or _common_size([*self.files.values()])
        shape = height, width, channels or (1 if all(file.grey for file in self.files.values()) else 3)
        if self.errors:  # nothing can be cached, but the other images are decoded to find further errors
            self._try_each(lambda i: decode(self.paths[i], shape), "decoding images")
            return None
        return ImageFiles(self.paths, shape) if on_demand else self._load_cached(shape)

    def _try_each(self, work: Callable[[int], object], title: str) -> None:
        """Call `work` with the number of every image that has no error so far."""

        def try_work(i: int) -> None:
            try:
                if i not in self.errors:
                    work(i)
            except Exception as error:  # Pillow's decoders raise many kinds of exceptions
                self.errors[i] = reason_of(error)

        _in_parallel(try_work, len(self.names), title)

    def _inspect(self) -> None:
        """Find every file and read its properties: from the notes of the cache if the file has not changed."""
        notes = read_notes(self.manifest)

        def inspect_file(i: int) -> None:
            self.paths[i] = self._find(self.names[i])
            facts, note = self.paths[i].stat(), notes.get(self.names[i])
            if note and note[:2] == [facts.st_size, facts.st_mtime_ns]:
                self.files[i] = ImageFileInfo(*note)
            else:
                self.files[i] = ImageFileInfo(facts.st_size, facts.st_mtime_ns, *read_header(self.paths[i]))

        self._try_each(inspect_file, "inspecting images")

    def _find(self, name: str) -> Path:
        """The file of this name, whose accented letters may have another form in Unicode."""
        path = self.manifest.parent / name
        if path.exists():
            return path
        similar = self.similar_name(name)
        same = similar is not None and _spelling(similar, fold=False) == _spelling(path.name, fold=False)
        return path.with_name(similar) if same and similar else path

    def similar_name(self, name: str) -> str | None:
        """The file in the same folder that differs only in capitals or in the form of accented letters."""
        path = self.manifest.parent / name
        return self.similar(path.parent).get(_spelling(path.name))

    def _load_cached(self, shape: Shape) -> Store | None:
        """The pixels in the cache, after those of new and changed files are decoded; None if some cannot be."""
        cache = ImageCache(self.manifest, shape)
        rows = {name: row for row, name in enumerate(cache.notes)}
        same = [cache.notes.get(name) == [*self.files[i]] for i, name in enumerate(self.names)]
        reuse = [rows[name] if unchanged else None for name, unchanged in zip(self.names, same, strict=True)]
        if reuse == [*range(cache.count)]:
            return cache.store()
        with cache.replace(len(self.names)) as pixels:

            def fill(i: int) -> None:
                row = reuse[i]
                if row is not None and cache.pixels is not None:
                    pixels[i] = cache.pixels[[row]][0]
                else:
                    pixels[i], facts = decode(self.paths[i], shape)
                    self.files[i] = self.files[i]._replace(**facts)

            self._try_each(fill, "decoding images")
            if not self.errors:
                cache.keep({name: [*self.files[i]] for i, name in enumerate(self.names)})
        return None if self.errors else cache.store()


class ImageFiles(RowsOnDisk):
    """Images (N, height, width, channels) uint8, decoded each time they are asked for: for an encoder, which needs
    every image once."""

    def __init__(self, paths: Sequence[Path], shape: Shape):
        super().__init__([len(paths)], shape, np.dtype(np.uint8))
        self.paths, self.image_shape = paths, shape

    def __getitem__(self, which: slice | int | Sequence[int] | np.ndarray) -> np.ndarray:
        positions = np.arange(len(self))[which]
        if np.ndim(positions) == 0:
            return read_image(self.paths[int(positions)], self.image_shape)
        with ThreadPoolExecutor(usable_cores()) as pool:
            rows = list(pool.map(lambda i: read_image(self.paths[i], self.image_shape), positions.tolist()))
        return np.stack(rows) if rows else np.empty((0, *self.image_shape), np.uint8)


def _spelling(name: str, fold: bool = True) -> str:
    composed = unicodedata.normalize("NFC", name)
    return composed.casefold() if fold else composed


def _names_by_spelling(folder: Path) -> dict[str, str]:
    try:
        return {_spelling(file): file for file in os.listdir(folder)}
    except (OSError, ValueError):  # there is no such folder, or it cannot be listed
        return {}


def _common_size(files: Sequence[ImageFileInfo]) -> tuple[int, int]:
    sizes = {(file.height, file.width) for file in files}
    only = next(iter(sizes))
    return only if len(sizes) == 1 and max(only) <= MAX_KEPT_SIZE else (DEFAULT_SIZE, DEFAULT_SIZE)


def _in_parallel(work: Callable[[int], object], count: int, title: str) -> None:
    """Call `work` with every number below `count`, with a progress bar if stderr is a terminal."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    with warnings.catch_warnings(), ThreadPoolExecutor(usable_cores()) as pool:
        warnings.simplefilter("ignore")  # Pillow warns about files that are checked when they are opened
        results = pool.map(work, range(count))
        for _ in track(results, title, count, console=console, disable=not console.is_terminal, transient=True):
            pass


# ---------------------------------------------------------------------- findings


def _unusable(images: Images, frame: pd.DataFrame) -> Found:
    """One problem per image that cannot be used, in the order of the first rows that name them."""
    first = frame["path"].drop_duplicates()
    numbers = {name: i for i, name in enumerate(images.names)}
    for row, name in cells(first):
        reason = images.errors.get(numbers[name])
        if reason is None or not name:  # an empty cell is reported as such
            continue
        cure, similar = "repair it or leave it out", images.similar_name(name) if reason == NO_IMAGE else None
        if similar is not None and similar != os.path.basename(name):  # a broken link has the same name
            cure = f"its name on disk is {similar}: write it like this"
        elif reason == NO_IMAGE:
            backslashes = "\\" in name and os.sep != "\\"
            cure = "write / between folders, not \\" if backslashes else "correct the path (relative to the manifest)"
        place = images.manifest.parent / name
        yield Problem(images.manifest, row, f"{place}: {reason}", cure)


def _changes(
    names: Sequence[str], files: Sequence[ImageFileInfo], shape: tuple[int, ...], options: ReadOptions
) -> Iterator[str]:
    """Images unlike those of training; before training, images that are changed."""
    trained, new_size = options.trained_images, f"{shape[0]}x{shape[1]}"
    unlike = [] if trained is None else [i for i, file in enumerate(files) if not trained.covers(file)]
    if unlike:
        example = f"{names[unlike[0]]} ({ImageFileSummary.of([files[unlike[0]]])})"
        yield (
            f"{len(unlike)} of {len(files)} images are not like those that the run was trained on ({trained}), "
            f"e.g. {example}: they become {'x'.join(map(str, shape))} and may be classified wrongly"
        )
    summary = ImageFileSummary.of(files)
    if options.training and not options.image_size and summary.sizes != new_size:
        cure = "leave out images that do not belong, or choose another size with --image-size"
        yield f"the images are resized to {new_size} from {summary.sizes}: {cure}"
    if options.training and summary.grey and summary.colour:
        grey = [name for name, file in zip(names, files, strict=True) if file.grey]
        yield f"{len(grey)} of {len(files)} images are grey, e.g. {grey[0]}: all become colour"


def _losses(names: Sequence[str], files: Sequence[ImageFileInfo]) -> Iterator[str]:
    """Content of the files that is lost in the pixels."""
    for field, (content, cure) in NOT_READ.items():
        which = [name for name, file in zip(names, files, strict=True) if getattr(file, field)]
        if which:
            yield f"{len(which)} of {len(files)} images have {content}, e.g. {which[0]}: {cure}"
    ranges = [(file.lowest, file.highest) for file in files if file.lowest is not None and file.highest is not None]
    if ranges:
        lowest, highest = min(low for low, _ in ranges), max(high for _, high in ranges)
        levels = (highest >> 8) - (lowest >> 8) + 1
        if levels <= FEW_LEVELS:
            yield (
                f"{len(ranges)} of {len(files)} images have 16 bits, with values from {lowest:,} to {highest:,} of "
                f"65,535: at most {levels} of 256 levels remain; stretch all images to the full range in the same way"
            )
