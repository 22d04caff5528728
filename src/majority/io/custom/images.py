"""Image files: each as 8 bits, grey or colour, at one size; and all images that a table names."""

from __future__ import annotations

import os
import tempfile
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from PIL import Image, ImageFile, ImageOps, TiffImagePlugin, UnidentifiedImageError

from ...cores import usable_cores
from ...data import stores
from ...data.stores import MappedRows, RowsOnDisk, Store
from ...errors import InputError
from ...files import cache_folder, check_regular, similar_file, write_error
from ..image_summary import ImageFileSummary, ImageInfo
from .content import Content
from .findings import Findings
from .options import ReadOptions

FORMATS = ("PNG", "JPEG", "TIFF", "WEBP")
MAX_PIXELS = 64_000_000  # per file: more is treated as a decompression bomb
MAX_KEPT_SIZE = 256  # pixels per side: images that all have the same size, up to this one, keep it
DEFAULT_SIZE = 64  # pixels per side
FEW_LEVELS = 64  # of 256: what remains of a 14-bit camera image that was written as 16 bits
ORIENTATION, TURNED = 0x0112, range(5, 9)  # EXIF tag, and its values that exchange width and height
CHUNK = 1024  # images that are decoded together

Shape = tuple[int, int, int]  # height, width, channels
Item = TypeVar("Item")


# ---------------------------------------------------------------------- one image


def read_image(path: str | Path, shape: Shape) -> np.ndarray:
    """Read an image file as a classifier of this instance shape read its training images: uint8 (height, width,
    channels).

    The EXIF orientation is applied. 16-bit values keep their upper eight bits; only the first page is read. An image
    of another size is resized.
    """
    try:
        return decode(Path(path), (shape[0], shape[1], shape[2]))[0]
    except Exception as error:  # Pillow's decoders raise many kinds of exceptions
        raise InputError(f"{path}: {reason_of(error)}: correct the path, repair it or leave it out") from error


def decode(path: Path, shape: Shape) -> tuple[np.ndarray, tuple[int, int] | None]:
    """The first page of an image as uint8 of this (height, width, channels), and the range of its 16-bit values."""
    height, width, channels = shape
    with _open(path) as opened:
        opened.draft("L" if channels == 1 else "RGB", (width, height))  # a large JPEG is decoded at a smaller scale
        image = opened if _orientation(opened) is None else ImageOps.exif_transpose(opened)
        found = None
        if image.mode.startswith("I"):
            values = np.asarray(image)
            found = int(values.min()), int(values.max())
            if found[0] < 0 or found[1] > 0xFFFF:
                raise InputError("it has pixel values outside 0 to 65,535")
            image = Image.fromarray((values.astype(np.uint16) >> 8).astype(np.uint8))
        image = image.convert("L" if channels == 1 else "RGB")
        if image.size != (width, height):
            image = image.resize((width, height), Image.Resampling.BILINEAR)
        return np.asarray(image, np.uint8).reshape(shape), found


def read_header(path: Path) -> ImageInfo:
    """The properties that are known without decoding the pixels."""
    with _open(path) as image:
        width, height = image.size
        if isinstance(image, TiffImagePlugin.TiffImageFile):  # some versions of Pillow turn its size, others do not
            width, height = image.tag_v2[TiffImagePlugin.IMAGEWIDTH], image.tag_v2[TiffImagePlugin.IMAGELENGTH]
        if _orientation(image) in TURNED:
            width, height = height, width
        has_pages = image.format in FORMATS and getattr(
            image, "is_animated", False
        )  # other formats: previews of phones
        return ImageInfo(height, width, image.mode in ("1", "L", "LA") or image.mode.startswith("I"), has_pages)


def _orientation(image: Image.Image) -> int | None:
    """The EXIF orientation. For a PNG, only what precedes the pixels: its own `getexif` would decode them."""
    return Image.Image.getexif(image).get(ORIENTATION)


def _open(path: Path) -> ImageFile.ImageFile:
    check_regular(path)
    image = Image.open(path, formats=FORMATS)
    wide = image.mode == "F"
    if image.mode == "I" and isinstance(image, TiffImagePlugin.TiffImageFile):  # signed 16 bits have this mode too
        wide = image.tag_v2[TiffImagePlugin.BITSPERSAMPLE][0] > 16
    if wide or image.width * image.height > MAX_PIXELS:
        image.close()
        floating = "it has floating-point or 32-bit pixels, which have no fixed range: save it with 8 or 16 bits"
        raise InputError(floating if wide else f"it has more than {MAX_PIXELS:,} pixels: make it smaller")
    return image


def reason_of(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such image"
    if isinstance(error, InputError):
        return str(error)
    if isinstance(error, UnidentifiedImageError):
        return f"it is not a {', '.join(FORMATS[:-1])} or {FORMATS[-1]} image, or it is damaged"
    return f"it cannot be decoded ({str(error).strip() or type(error).__name__})"


# ---------------------------------------------------------------------- all images of a source


class ImageFiles(RowsOnDisk):
    """Images (N, height, width, channels) uint8, decoded each time they are asked for: for an encoder, which needs
    every image once."""

    def __init__(self, paths: Sequence[Path], shape: Shape):
        super().__init__([len(paths)], shape, np.dtype(np.uint8))
        self.paths, self.image_shape = paths, shape

    def read_rows(self, file: int, numbers: np.ndarray, rows: np.ndarray) -> None:
        with ThreadPoolExecutor(usable_cores()) as pool:
            found = pool.map(lambda i: read_image(self.paths[i], self.image_shape), numbers.tolist())
            for row, pixels in enumerate(found):
                rows[row] = pixels


def read_images(
    frame: pd.DataFrame, order: np.ndarray, content: Content, options: ReadOptions, findings: Findings
) -> None:
    """Put the images into the content: the pixels at one size, or problems with those that cannot be used.

    Without a size, images that all have the same size of up to 256 pixels per side keep it; otherwise all become
    64 x 64. Without channels, there is 1 channel if all images are grey, otherwise 3.
    """
    which, names = pd.factorize(frame["path"], sort=True)
    content.index, content.paths = which[order], np.asarray(names, object)
    paths, errors = [_find(content.file.parent / name) for name in names], dict[int, str]()
    headers = dict(_try_each(len(paths), lambda i: read_header(paths[i]), errors, "inspecting images"))
    if options.encoder_shape is not None:
        content.store = ImageFiles(paths, options.encoder_shape)
    elif headers:
        shape = _shape_of([*headers.values()], options)
        content.store = _decode_all(paths, shape, headers, errors)
        files = [*headers.values()]
        if not errors:
            content.image_files = ImageFileSummary.of(files)
            findings.add(_changes([*names], files, shape, options))
    guessed = False
    for row, name in frame["path"].drop_duplicates().items():
        number = int(np.searchsorted(names, name))
        if number in errors and name:  # an empty cell is reported as such
            if not guessed and not os.path.exists(paths[number]):  # once, as it looks at all names in the folder
                errors[number] += similar_file(paths[number])
                guessed = True
            slash = "write / between folders, not \\" if "\\" in name else "correct the path (relative to the manifest)"
            cure = f"{slash}, repair the image or leave it out"
            findings.add_problem(content.file, row, f"{content.file.parent / name}: {errors[number]}", cure)


def _find(path: Path) -> Path:
    """The file of this name, whose accented letters may have another form in Unicode."""
    forms = (path.with_name(unicodedata.normalize(form, path.name)) for form in ("NFC", "NFD") if path.name)
    return path if os.path.exists(path) else next(filter(os.path.exists, forms), path)


def _shape_of(files: Sequence[ImageInfo], options: ReadOptions) -> Shape:
    sizes = {(file.height, file.width) for file in files}
    only = next(iter(sizes))
    own = only if len(sizes) == 1 and max(only) <= MAX_KEPT_SIZE else (DEFAULT_SIZE, DEFAULT_SIZE)
    height, width = options.image_size or own
    return height, width, options.channels or (1 if all(file.grey for file in files) else 3)


def _decode_all(
    paths: Sequence[Path], shape: Shape, headers: dict[int, ImageInfo], errors: dict[int, str]
) -> Store | None:
    """The pixels of all images, in memory if they are few, otherwise in a file without a name."""

    def decoded() -> Iterator[np.ndarray]:
        for i, (pixels, range16) in _try_each(len(paths), lambda i: decode(paths[i], shape), errors, "decoding images"):
            headers[i] = headers[i]._replace(range16=range16)
            yield pixels

    if len(paths) * int(np.prod(shape)) <= stores.IN_MEMORY_BYTES:
        images = [*decoded()]
        return None if errors else np.stack(images)
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            for pixels in decoded():
                file.write(pixels.data)
            file.flush()
            return None if errors else MappedRows(np.memmap(file, np.uint8, "r", shape=(len(paths), *shape)))
    except OSError as error:
        raise write_error(folder, error) from None


def _try_each(count: int, work: Callable[[int], Any], errors: dict[int, str], title: str) -> Iterator[tuple[int, Any]]:
    """The result for every number that has no error, in parallel; new errors are added."""

    def attempt(number: int) -> Any:
        try:
            return work(number)
        except Exception as error:  # Pillow's decoders raise many kinds of exceptions
            errors[number] = reason_of(error)

    with warnings.catch_warnings(), ThreadPoolExecutor(usable_cores()) as pool:
        warnings.simplefilter("ignore")  # Pillow warns about files that are checked when they are opened
        for start in with_progress(range(0, count, CHUNK), title):
            numbers = [number for number in range(start, min(start + CHUNK, count)) if number not in errors]
            for number, result in zip(numbers, pool.map(attempt, numbers), strict=True):
                if number not in errors:
                    yield number, result


def with_progress(items: Sequence[Item], title: str) -> Iterable[Item]:
    """The items, with a progress bar if stderr is a terminal."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return track(items, title, console=console, disable=not console.is_terminal, transient=True)


def _changes(names: Sequence[str], files: Sequence[ImageInfo], shape: Shape, options: ReadOptions) -> Iterator[str]:
    """Images unlike those of training; before training, images that are changed; what is lost in the pixels."""
    trained, summary, new_size = options.trained_images, ImageFileSummary.of(files), f"{shape[0]}x{shape[1]}"
    unlike = [i for i, file in enumerate(files) if trained is not None and not trained.covers(file)]
    if unlike:
        example = f"{names[unlike[0]]} ({ImageFileSummary.of([files[unlike[0]]])})"
        yield (
            f"{len(unlike)} of {len(files)} images are not like those that the run was trained on ({trained}), "
            f"e.g. {example}: they become {'x'.join(map(str, shape))} and may be classified wrongly"
        )
    if options.training and not options.image_size and summary.sizes != new_size:
        cure = "leave out images that do not belong, or choose another size with --image-size"
        yield f"the images are resized to {new_size} from {summary.sizes}: {cure}"
    if options.training and summary.grey and summary.colour:
        grey = [name for name, file in zip(names, files, strict=True) if file.grey]
        yield f"{len(grey)} of {len(files)} images are grey, e.g. {grey[0]}: all become colour"
    pages = [name for name, file in zip(names, files, strict=True) if file.has_pages]
    if pages:
        cure = "only the first page is used; write the page that you need into its own file"
        yield f"{len(pages)} of {len(files)} images have further pages, e.g. {pages[0]}: {cure}"
    ranges = [file.range16 for file in files if file.range16 is not None]
    if ranges:
        lowest, highest = min(low for low, _ in ranges), max(high for _, high in ranges)
        levels = (highest >> 8) - (lowest >> 8) + 1
        if levels <= FEW_LEVELS:
            yield (
                f"{len(ranges)} of {len(files)} images have 16 bits, with values from {lowest:,} to {highest:,} of "
                f"65,535: at most {levels} of 256 levels remain; stretch all images to the full range in the same way"
            )
