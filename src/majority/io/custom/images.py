"""One image file: its size and kind, and its pixels as 8 bits, grey or colour, at one size."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageFile, ImageOps, TiffImagePlugin, UnidentifiedImageError

from ...errors import InputError
from ...files import check_regular

FORMATS = ("PNG", "JPEG", "TIFF", "WEBP")
MAX_PIXELS = 64_000_000  # per file: more is treated as a decompression bomb
PIXELS_VARIABLE = "MAJORITY_MAX_MEGAPIXELS"
NO_IMAGE = "there is no such image"
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
        reason = reason_of(error)
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


def read_header(path: Path) -> tuple[int, int, bool, bool, bool]:
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


def reason_of(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return NO_IMAGE
    if isinstance(error, InputError):
        return str(error)
    if isinstance(error, UnidentifiedImageError):
        return f"it is not a {', '.join(FORMATS[:-1])} or {FORMATS[-1]} image, or it is damaged"
    return f"it cannot be decoded ({str(error).strip() or type(error).__name__})"
