"""Image files decoded in parallel, at one size, grey or colour; each that cannot be used has a reason."""

from __future__ import annotations

import functools
import os
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageOps, TiffImagePlugin

from ...data.stores import RowsOnDisk
from ...errors import InputError
from .image_cache import ImageCache, noted_images

FORMATS = ("PNG", "JPEG", "TIFF", "WEBP")
ENDINGS = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp")  # by which their files are known; any other may be named
MOST_PIXELS = 64_000_000  # of one file: more is taken for a decompression bomb
LARGEST_KEPT = 256  # pixels a side: images that all have one size up to this keep it
OTHERWISE = 64  # pixels a side
ABSENT = "there is no such image"
AT_ONCE = 64  # images a task
ORIENTATION, TURNED = 0x0112, range(5, 9)  # EXIF: orientations that exchange width and height


class Picture(NamedTuple):
    """A file as it was when it was looked at."""

    bytes: int
    changed_ns: int
    height: int
    width: int
    grey: bool
    pages: bool  # further ones, which are not read
    bands: bool  # further ones, which are not read; that an alpha tells something is known once it is decoded
    lowest: int | None = None  # of the values of 16 bits, known once it is decoded too; None where it has 8
    highest: int | None = None


class Images(NamedTuple):
    store: np.ndarray | RowsOnDisk | None  # (n, height, width, channels); None where there are faults
    pictures: dict[int, Picture]  # the files by number, those that could be opened
    faults: dict[int, str]  # what is wrong with which of them


def load_images(
    manifest: Path, names: Sequence[str], size: tuple[int, int] | None = None, channels: int | None = None
) -> Images:
    """All images at one size, or what is wrong with some.

    Without a size: their own where all have one of up to 256 pixels a side, else 64 x 64. Without
    channels: 1 where all are grey, else 3. The pixels are kept in the user cache and read from there, those
    of small sets into memory. `names` are the files as the manifest writes them, relative to it.
    """
    paths, noted = [manifest.parent] * len(names), noted_images(manifest)
    pictures: dict[int, Picture] = {}
    faults: dict[int, str] = {}

    def each(work: Callable[[int], object], title: str) -> None:
        def tried(i: int) -> None:
            try:
                if i not in faults:
                    work(i)
            except Exception as error:  # Pillow's decoders raise whatever they stumble over
                faults[i] = _reason(error)

        _in_parallel(tried, len(paths), title)

    def look(i: int) -> None:
        paths[i], about = _found(manifest.parent, names[i])
        stamp, known = [about.st_size, about.st_mtime_ns], noted.get(names[i])
        pictures[i] = Picture(*known) if known and known[:2] == stamp else Picture(*stamp, *_look(paths[i]))

    each(look, "looking at images")
    if not pictures:
        return Images(None, pictures, faults)
    common = channels or (1 if all(picture.grey for picture in pictures.values()) else 3)
    shape = (*(size or _common_size(pictures.values())), common)
    if faults:  # nothing can be kept, but the other images are tried
        each(lambda i: decoded(paths[i], shape), "decoding images")
        return Images(None, pictures, faults)
    cache = ImageCache(manifest, shape)
    rows, old = {name: row for row, name in enumerate(cache.notes)}, cache.pixels
    reuse = [rows.get(name) if cache.notes.get(name) == list(pictures[i]) else None for i, name in enumerate(names)]
    if reuse == list(range(cache.count)):
        return Images(cache.store(), pictures, {})
    again = _spelt_again(manifest.parent, names)

    def decode(i: int) -> None:
        if i in again:
            return
        if reuse[i] is None:
            target[i], facts = decoded(paths[i], shape)
            pictures[i] = pictures[i]._replace(**facts)
        else:
            target[i] = old[[reuse[i]]][0]

    with cache.replaced(len(paths)) as target:
        each(decode, "decoding images")
        for i, first in again.items():
            target[i], pictures[i] = target[first], pictures[first]
        if not faults:
            cache.keep({name: list(pictures[i]) for i, name in enumerate(names)})
    return Images(None if faults else cache.store(), pictures, faults)


def first_spellings(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Each name -> the first one of its file: ./, .. and doubled slashes, relative and absolute paths are spellings.

    A link in the place of a file is a file of its own: stores without doubles link images that happen to be alike.

    >>> first_spellings(Path("/data"), ["a/b.png", "./a//b.png", "/data/a/b.png", "b.png"])
    {'a/b.png': 'a/b.png', './a//b.png': 'a/b.png', '/data/a/b.png': 'a/b.png', 'b.png': 'b.png'}
    """

    @functools.cache
    def place(part: str) -> str:
        try:
            return os.path.realpath(os.path.join(folder, part))
        except ValueError:  # no path at all, which is told when it is opened
            return part

    first: dict[tuple[str, str], str] = {}
    split = ((name, os.path.split(name)) for name in dict.fromkeys(names))
    return {name: first.setdefault((place(part), file), name) for name, (part, file) in split}


def _spelt_again(folder: Path, names: Sequence[str]) -> dict[int, int]:
    """The number of each name whose file was named before -> that of the first."""
    number = {name: i for i, name in enumerate(names)}
    return {number[name]: number[first] for name, first in first_spellings(folder, names).items() if name != first}


def read_image(path: str | Path, shape: tuple[int, int, int]) -> np.ndarray:
    """An image file as a classifier of this instance shape saw its own: uint8 (height, width, channels).

    Upright by its EXIF, of 16 bits the upper eight, of several pages the first, resized where it has another size.
    """
    try:
        return decoded(Path(path), tuple(shape))[0]
    except Exception as error:  # Pillow's decoders raise whatever they stumble over
        reason = _reason(error)
        cure = "correct the path" if reason == ABSENT else "mend it or leave it out"
        raise InputError(f"{path}: {reason}: {cure}") from error


def decoded(path: Path, shape: tuple[int, int, int]) -> tuple[np.ndarray, dict[str, int | bool]]:
    """One image as uint8 of this (height, width, channels), of several pages the first; and what its pixels alone
    tell of its Picture."""
    height, width, channels = shape
    with _opened(path) as image:
        image.draft("L" if channels == 1 else "RGB", (width, height))  # a large JPEG is decoded small
        cut = ";16" in str(image.tile)  # colours of 16 bits, of which Pillow gives the upper eight
        image, facts = _eight_bits(_upright(image))
        if image.getbands()[-1] == "A" or "transparency" in image.info:  # not that of LAB
            least, most = image.convert("RGBA").getchannel("A").getextrema()
            facts |= {"bands": True} if least < most else {}
        image = image.convert("L" if channels == 1 else "RGB")
        if cut and "lowest" not in facts:
            pixels = np.asarray(image)
            facts |= {"lowest": int(pixels.min()) << 8, "highest": int(pixels.max()) << 8 | 0xFF}
        if image.size != (width, height):
            image = image.resize((width, height), Image.Resampling.BILINEAR)
        return np.asarray(image, np.uint8).reshape(shape), facts


def _found(folder: Path, name: str) -> tuple[Path, os.stat_result]:
    """Letters with marks can be written in two ways in Unicode: a file is found by either."""
    try:
        return folder / name, (folder / name).stat()
    except FileNotFoundError:
        for form in ("NFC", "NFD"):
            path = folder / unicodedata.normalize(form, name)
            if path.exists():
                return path, path.stat()
        raise


def other_capitals(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Names of files that are absent -> what a file in its place is called, where capitals alone differ."""

    @functools.cache
    def files(place: Path) -> dict[str, str]:
        try:
            return {file.casefold(): file for file in os.listdir(place)}
        except OSError:  # there is none, or it may not be listed
            return {}

    places = {name: os.path.split(name) for name in names}
    found = {name: files(folder / place).get(file.casefold(), file) for name, (place, file) in places.items()}
    return {name: file for name, file in found.items() if file != places[name][1]}  # as a link to nothing is called


def _look(path: Path) -> tuple[int, int, bool, bool, bool]:
    """Height, width, whether it is grey, has further pages, has further bands; the pixels are not decoded."""
    with _opened(path) as image:
        width, height = image.size
        bands = False
        if image.format == "TIFF":  # as stored: Pillow's size is turned already, or not, by its version
            width, height = image.tag_v2[TiffImagePlugin.IMAGEWIDTH], image.tag_v2[TiffImagePlugin.IMAGELENGTH]
            bands = image.tag_v2.get(TiffImagePlugin.SAMPLESPERPIXEL, 1) > len(image.getbands())
        if _orientation(image) in TURNED:
            width, height = height, width
        grey = image.mode in ("1", "L", "LA") or image.mode.startswith("I")
        pages = image.format in FORMATS and getattr(image, "is_animated", False)  # in a JPEG of a phone: a preview
        return height, width, grey, pages, bands


def _orientation(image: Image.Image) -> int | None:
    """By its EXIF; of a PNG by what precedes the pixels, which its own `getexif` would decode to look for more."""
    return Image.Image.getexif(image).get(ORIENTATION)


def _upright(image: Image.Image) -> Image.Image:
    return image if _orientation(image) is None else ImageOps.exif_transpose(image)


def _opened(path: Path) -> Image.Image:
    try:
        image = Image.open(path, formats=FORMATS)
    except Image.DecompressionBombError:
        raise InputError(f"it has more than {MOST_PIXELS // 10**6} million pixels") from None
    if image.width * image.height > MOST_PIXELS:
        image.close()
        raise InputError(f"it has {image.width} x {image.height} pixels, more than {MOST_PIXELS // 10**6} million")
    kind = _without_range(image)
    if kind:
        image.close()
        raise InputError(f"it holds {kind} pixels, which have no fixed range (save it with 8 or 16 bits)")
    return image


def _without_range(image: Image.Image) -> str | None:
    """Mode I alone does not tell: signed integers of 16 bits have it too, and with some versions of Pillow all do."""
    if image.mode == "F":
        return "floating-point"
    deep = image.mode == "I" and image.format == "TIFF" and image.tag_v2[TiffImagePlugin.BITSPERSAMPLE][0] > 16
    return "32-bit" if deep else None


def _eight_bits(image: Image.Image) -> tuple[Image.Image, dict[str, int]]:
    """Of grey of 16 bits the upper eight, and the values it had."""
    if not image.mode.startswith("I"):
        return image, {}
    pixels = np.asarray(image)
    lowest, highest = int(pixels.min()), int(pixels.max())
    if lowest < 0 or highest > 0xFFFF:
        raise InputError("it holds pixels outside 0 to 65,535")
    upper = Image.fromarray((pixels.astype(np.uint16) >> 8).astype(np.uint8))
    return upper, {"lowest": lowest, "highest": highest}


def _common_size(pictures: Iterable[Picture]) -> tuple[int, int]:
    sizes = {(picture.height, picture.width) for picture in pictures}
    only = next(iter(sizes))
    return only if len(sizes) == 1 and max(only) <= LARGEST_KEPT else (OTHERWISE, OTHERWISE)


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return ABSENT
    if isinstance(error, InputError):
        return str(error)
    if isinstance(error, Image.UnidentifiedImageError):
        return f"it is no {', '.join(FORMATS[:-1])} or {FORMATS[-1]} image, or is damaged"
    return f"it cannot be decoded ({str(error).strip() or type(error).__name__})"


def _in_parallel(work: Callable[[int], None], count: int, title: str) -> None:
    """`work` on every number below `count`, with a progress bar on a terminal's stderr."""
    from rich.console import Console
    from rich.progress import Progress

    def some(start: int) -> int:
        numbers = range(start, min(start + AT_ONCE, count))
        for i in numbers:
            work(i)
        return len(numbers)

    console = Console(stderr=True)
    with (
        warnings.catch_warnings(),
        Progress(console=console, disable=not console.is_terminal, transient=True) as progress,
        ThreadPoolExecutor(
            len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        ) as pool,
    ):
        warnings.simplefilter("ignore")  # of Pillow, about files that _opened judges itself
        task = progress.add_task(title, total=count)
        for done in pool.map(some, range(0, count, AT_ONCE)):
            progress.advance(task, done)
