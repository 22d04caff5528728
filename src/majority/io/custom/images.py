"""Image files, decoded in parallel to one size, grey or colour. An image that cannot be used gets a reason."""

from __future__ import annotations

import functools
import os
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageFile, ImageOps, TiffImagePlugin, UnidentifiedImageError

from ...cores import usable_cores
from ...data.stores import Store
from ...errors import InputError
from ...files import check_regular
from .image_cache import ImageCache, read_notes
from .image_files import ImageFiles

FORMATS = ("PNG", "JPEG", "TIFF", "WEBP")
MAX_PIXELS = 64_000_000  # per file: more is treated as a decompression bomb
PIXELS_VARIABLE = "MAJORITY_MAX_MEGAPIXELS"
MAX_KEPT_SIZE = 256  # pixels per side: images that all have the same size, up to this one, keep it
DEFAULT_SIZE = 64  # pixels per side
NO_IMAGE = "there is no such image"
TASK_SIZE = 64  # images per task of the thread pool
ORIENTATION, TURNED = 0x0112, range(5, 9)  # EXIF tag, and its values that exchange width and height


class ImageFileInfo(NamedTuple):
    """The properties of an image file when it was opened. The image cache stores them in this order."""

    bytes: int
    changed_ns: int
    height: int
    width: int
    grey: bool
    pages: bool  # it has further pages, which are not read
    bands: bool  # it has further bands, which are not read; an alpha channel with content is found by decoding
    lowest: int | None = None  # of 16-bit values, found by decoding; None for 8 bits
    highest: int | None = None


class Images(NamedTuple):
    store: Store | None  # (n, height, width, channels); None if there are errors
    files: dict[int, ImageFileInfo]  # by number, for the files that could be opened
    errors: dict[int, str]  # number of an image -> the reason why it cannot be used


def load_images(
    manifest: Path,
    names: Sequence[str],
    size: tuple[int, int] | None = None,
    channels: int | None = None,
    on_demand: bool = False,
) -> Images:
    """All images at one size, or the reasons why some cannot be used.

    Without `size`, images that all have the same size of up to 256 pixels per side keep it; otherwise all become
    64 x 64. Without `channels`, there is 1 channel if all images are grey, otherwise 3. The pixels are kept in the user
    cache and are read from there; small sets are loaded into memory. `names` are the paths as the manifest writes them,
    relative to it. With `on_demand`, the files are only inspected now: the store decodes them when they are used.
    """
    images = _ImagesOfManifest(manifest, names)
    images.inspect()
    if not images.files:
        return Images(None, images.files, images.errors)
    shape = images.choose_shape(size, channels)
    if images.errors:  # nothing can be cached, but the other images are decoded to find further errors
        images.try_each(lambda i: decode(images.paths[i], shape), "decoding images")
        return Images(None, images.files, images.errors)
    if on_demand:
        return Images(ImageFiles(images.paths, shape, read_image), images.files, {})
    store = images.load_cached(shape)
    return Images(store, images.files, images.errors)


class _ImagesOfManifest:
    """The images that a manifest names, while they are loaded. What a step finds out is in `files` and `errors`."""

    def __init__(self, manifest: Path, names: Sequence[str]):
        self.manifest, self.names = manifest, names
        self.paths = [manifest.parent] * len(names)  # `inspect` finds them
        self.files: dict[int, ImageFileInfo] = {}
        self.errors: dict[int, str] = {}

    def try_each(self, work: Callable[[int], object], title: str) -> None:
        """Call `work` with the number of every image that has no error so far."""

        def try_work(i: int) -> None:
            try:
                if i not in self.errors:
                    work(i)
            except Exception as error:  # Pillow's decoders raise many kinds of exceptions
                self.errors[i] = _reason(error)

        _in_parallel(try_work, len(self.names), title)

    def inspect(self) -> None:
        """Find every file and read its properties: from the notes of the cache if the file has not changed."""
        notes = read_notes(self.manifest)

        def inspect_file(i: int) -> None:
            self.paths[i], status = _find_file(self.manifest.parent, self.names[i])
            note = notes.get(self.names[i])
            if note and note[:2] == [status.st_size, status.st_mtime_ns]:
                self.files[i] = ImageFileInfo(*note)
            else:
                self.files[i] = ImageFileInfo(status.st_size, status.st_mtime_ns, *_read_header(self.paths[i]))

        self.try_each(inspect_file, "inspecting images")

    def choose_shape(self, size: tuple[int, int] | None, channels: int | None) -> tuple[int, int, int]:
        height, width = size or _common_size(self.files.values())
        return height, width, channels or (1 if all(file.grey for file in self.files.values()) else 3)

    def load_cached(self, shape: tuple[int, int, int]) -> Store | None:
        """The pixels in the cache, after those of new and changed files are decoded; None if some cannot be."""
        cache = ImageCache(self.manifest, shape)
        rows = {name: row for row, name in enumerate(cache.notes)}
        unchanged = [cache.notes.get(name) == list(self.files[i]) for i, name in enumerate(self.names)]
        reuse = [rows.get(name) if same else None for name, same in zip(self.names, unchanged, strict=True)]
        if reuse == list(range(cache.count)):
            return cache.store()
        with cache.replace(len(self.names)) as pixels:
            self._fill(pixels, shape, reuse, cache.pixels)
            if not self.errors:
                cache.keep({name: list(self.files[i]) for i, name in enumerate(self.names)})
        return None if self.errors else cache.store()

    def _fill(
        self, pixels: np.ndarray, shape: tuple[int, int, int], reuse: list[int | None], old_pixels: Store | None
    ) -> None:
        """Copy the old pixels of the rows to `reuse`, and decode the other files; one with several names only once."""
        aliases = _alias_numbers(self.manifest.parent, self.names)

        def fill_one(i: int) -> None:
            row = reuse[i]
            if i in aliases:
                return
            if row is None or old_pixels is None:
                pixels[i], facts = decode(self.paths[i], shape)
                self.files[i] = self.files[i]._replace(**facts)
            else:
                pixels[i] = old_pixels[[row]][0]

        self.try_each(fill_one, "decoding images")
        for i, first in aliases.items():
            pixels[i], self.files[i] = pixels[first], self.files[first]


def resolve_aliases(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Each path -> the first path that names the same file, be it with ./, .. or doubled slashes, relative or absolute.

    A link to a file counts as a file of its own: deduplicating file systems link images that happen to be equal.

    >>> resolve_aliases(Path("/data"), ["a/b.png", "./a//b.png", "/data/a/b.png", "b.png"])
    {'a/b.png': 'a/b.png', './a//b.png': 'a/b.png', '/data/a/b.png': 'a/b.png', 'b.png': 'b.png'}
    """

    @functools.cache
    def real_folder(parent: str) -> str:
        try:
            return os.path.realpath(os.path.join(folder, parent))
        except ValueError:  # not a valid path, which is reported when it is opened
            return parent

    first: dict[tuple[str, str], str] = {}
    split = ((name, os.path.split(name)) for name in dict.fromkeys(names))
    return {name: first.setdefault((real_folder(parent), file), name) for name, (parent, file) in split}


def _alias_numbers(folder: Path, names: Sequence[str]) -> dict[int, int]:
    """The number of each name whose file has an earlier name -> the number of the first name."""
    number = {name: i for i, name in enumerate(names)}
    return {number[name]: number[first] for name, first in resolve_aliases(folder, names).items() if name != first}


def read_image(path: str | Path, shape: tuple[int, int, int]) -> np.ndarray:
    """Read an image file as a classifier of this instance shape read its training images: uint8 (height, width,
    channels).

    The EXIF orientation is applied. 16-bit values keep their upper eight bits; only the first page is read. An image
    of another size is resized.
    """
    try:
        height, width, channels = shape
        return decode(Path(path), (height, width, channels))[0]
    except Exception as error:  # Pillow's decoders raise many kinds of exceptions
        reason = _reason(error)
        cure = "correct the path" if reason == NO_IMAGE else "repair it or leave it out"
        raise InputError(f"{path}: {reason}: {cure}") from error


def decode(path: Path, shape: tuple[int, int, int]) -> tuple[np.ndarray, dict[str, Any]]:
    """The first page of an image as uint8 of this (height, width, channels), and the fields of its ImageFileInfo that
    are known only after decoding."""
    height, width, channels = shape
    with _open(path) as opened:
        opened.draft("L" if channels == 1 else "RGB", (width, height))  # a large JPEG is decoded at a smaller scale
        sixteen_bit_colour = ";16" in str(opened.tile)  # of which Pillow returns the upper eight bits
        image, facts = _to_eight_bits(_upright(opened))
        if image.getbands()[-1] == "A" or "transparency" in image.info:  # the last band of LAB is no alpha channel
            lowest, highest = image.convert("RGBA").getchannel("A").getextrema()
            facts |= {"bands": True} if lowest != highest else {}
        image = image.convert("L" if channels == 1 else "RGB")
        if sixteen_bit_colour and "lowest" not in facts:
            pixels = np.asarray(image)
            facts |= {"lowest": int(pixels.min()) << 8, "highest": int(pixels.max()) << 8 | 0xFF}
        if image.size != (width, height):
            image = image.resize((width, height), Image.Resampling.BILINEAR)
        return np.asarray(image, np.uint8).reshape(shape), facts


def _find_file(folder: Path, name: str) -> tuple[Path, os.stat_result]:
    """Accented letters have two forms in Unicode: a file is found by either."""
    try:
        return folder / name, (folder / name).stat()
    except FileNotFoundError:
        for form in ("NFC", "NFD"):
            path = folder / unicodedata.normalize(form, name)
            if path.exists():
                return path, path.stat()
        raise


def find_ignoring_case(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Path of a missing file -> the name of a file in the same folder that differs only in capitals."""

    @functools.cache
    def files_in(parent: Path) -> dict[str, str]:
        try:
            return {file.casefold(): file for file in os.listdir(parent)}
        except OSError:  # there is no such folder, or it cannot be listed
            return {}

    split = {name: os.path.split(name) for name in names}
    found = {name: files_in(folder / parent).get(file.casefold(), file) for name, (parent, file) in split.items()}
    return {name: file for name, file in found.items() if file != split[name][1]}  # a broken link has the same name


def _read_header(path: Path) -> tuple[int, int, bool, bool, bool]:
    """Height, width, and whether it is grey, has further pages, has further bands; the pixels are not decoded."""
    with _open(path) as image:
        width, height = image.size
        bands = False
        if isinstance(image, TiffImagePlugin.TiffImageFile):  # some versions of Pillow turn its size, others do not
            width, height = image.tag_v2[TiffImagePlugin.IMAGEWIDTH], image.tag_v2[TiffImagePlugin.IMAGELENGTH]
            bands = image.tag_v2.get(TiffImagePlugin.SAMPLESPERPIXEL, 1) > len(image.getbands())
        if _orientation(image) in TURNED:
            width, height = height, width
        grey = image.mode in ("1", "L", "LA") or image.mode.startswith("I")
        pages = image.format in FORMATS and getattr(image, "is_animated", False)  # other formats: previews of phones
        return height, width, grey, pages, bands


def _orientation(image: Image.Image) -> int | None:
    """The EXIF orientation. For a PNG, only what precedes the pixels: its own `getexif` would decode them."""
    return Image.Image.getexif(image).get(ORIENTATION)


def _upright(image: Image.Image) -> Image.Image:
    return image if _orientation(image) is None else ImageOps.exif_transpose(image)


def _open(path: Path) -> ImageFile.ImageFile:
    check_regular(path)
    limit = _max_pixels()
    too_many = f"more than {limit // 10**6} million: make it smaller, or set {PIXELS_VARIABLE} to a larger number"
    try:
        image = Image.open(path, formats=FORMATS)
    except Image.DecompressionBombError:
        raise InputError(f"it has {too_many}") from None
    if image.width * image.height > limit:
        image.close()
        raise InputError(f"it has {image.width} x {image.height} pixels, {too_many}")
    kind = _kind_without_range(image)
    if kind:
        image.close()
        raise InputError(f"it has {kind} pixels, which have no fixed range (save it with 8 or 16 bits)")
    return image


def _max_pixels() -> int:
    """The largest number of pixels of an image. A user who raises it also raises that of Pillow."""
    given = os.environ.get(PIXELS_VARIABLE)
    if given is None:
        return MAX_PIXELS
    if not given.isdecimal():
        raise InputError(f"{PIXELS_VARIABLE} is {given!r}: give a whole number of millions of pixels, such as 200")
    Image.MAX_IMAGE_PIXELS = max(Image.MAX_IMAGE_PIXELS or 0, int(given) * 10**6)
    return int(given) * 10**6


def _kind_without_range(image: Image.Image) -> str | None:
    """The kind of pixels that have no fixed range, if the image has such pixels.

    Mode I is not enough: signed 16-bit integers have it too, and in some versions of Pillow all 16-bit images.
    """
    if image.mode == "F":
        return "floating-point"
    if image.mode == "I" and isinstance(image, TiffImagePlugin.TiffImageFile):
        return "32-bit" if image.tag_v2[TiffImagePlugin.BITSPERSAMPLE][0] > 16 else None
    return None


def _to_eight_bits(image: Image.Image) -> tuple[Image.Image, dict[str, Any]]:
    """The upper eight bits of a 16-bit grey image, and the range of its values; other images are unchanged."""
    if not image.mode.startswith("I"):
        return image, {}
    pixels = np.asarray(image)
    lowest, highest = int(pixels.min()), int(pixels.max())
    if lowest < 0 or highest > 0xFFFF:
        raise InputError("it has pixel values outside 0 to 65,535")
    upper = Image.fromarray((pixels.astype(np.uint16) >> 8).astype(np.uint8))
    return upper, {"lowest": lowest, "highest": highest}


def _common_size(files: Iterable[ImageFileInfo]) -> tuple[int, int]:
    sizes = {(file.height, file.width) for file in files}
    only = next(iter(sizes))
    return only if len(sizes) == 1 and max(only) <= MAX_KEPT_SIZE else (DEFAULT_SIZE, DEFAULT_SIZE)


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return NO_IMAGE
    if isinstance(error, InputError):
        return str(error)
    if isinstance(error, UnidentifiedImageError):
        return f"it is not a {', '.join(FORMATS[:-1])} or {FORMATS[-1]} image, or it is damaged"
    return f"it cannot be decoded ({str(error).strip() or type(error).__name__})"


def _in_parallel(work: Callable[[int], None], count: int, title: str) -> None:
    """Call `work` with every number below `count`, with a progress bar if stderr is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    def run_task(start: int) -> int:
        numbers = range(start, min(start + TASK_SIZE, count))
        for i in numbers:
            work(i)
        return len(numbers)

    console = Console(stderr=True)
    with (
        warnings.catch_warnings(),
        Progress(console=console, disable=not console.is_terminal, transient=True) as progress,
        ThreadPoolExecutor(usable_cores()) as pool,
    ):
        warnings.simplefilter("ignore")  # Pillow warns about files that _open checks itself
        task = progress.add_task(title, total=count)
        for done in pool.map(run_task, range(0, count, TASK_SIZE)):
            progress.advance(task, done)
