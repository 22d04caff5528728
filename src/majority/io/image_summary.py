"""ImageFileSummary: sizes and colours of the image files of a source, before all were brought to one shape."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..data.stores import Store

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp")  # usual ones; a manifest may name any file


class ImageInfo(NamedTuple):
    """The properties of an image file; the range is that of 16-bit values, found by decoding."""

    height: int
    width: int
    grey: bool
    has_pages: bool = False  # after the first one, which is read
    range16: tuple[int, int] | None = None


class ImageFileSummary(NamedTuple):
    """Ranges of height and width over all image files of a source, and whether some are grey or in colour.

    >>> print(ImageFileSummary((28, 40), (28, 30), grey=False, colour=True))
    28 to 40 high and 28 to 30 wide, colour
    """

    heights: tuple[int, int]  # lowest, highest
    widths: tuple[int, int]
    grey: bool  # at least one file is grey
    colour: bool  # at least one file is in colour

    @classmethod
    def of(cls, images: Iterable[ImageInfo]) -> ImageFileSummary:
        heights, widths, grey, *_ = zip(*images, strict=True)
        return cls((min(heights), max(heights)), (min(widths), max(widths)), any(grey), not all(grey))

    @classmethod
    def of_store(cls, store: Store) -> ImageFileSummary | None:
        """Of images in memory; None for vectors."""
        if store.ndim != 4:
            return None
        _, height, width, channels = store.shape
        return cls.of([ImageInfo(height, width, channels == 1)])

    @property
    def sizes(self) -> str:
        """The range of sizes as text. Where both sides vary, no single image need have both minima or both maxima."""
        (low, high), (narrow, wide) = self.heights, self.widths
        if low != high and narrow != wide:
            return f"{low} to {high} high and {narrow} to {wide} wide"
        return f"{low}x{narrow}" + ("" if (low, narrow) == (high, wide) else f" up to {high}x{wide}")

    def __str__(self) -> str:
        return f"{self.sizes}, {'grey and colour' if self.grey and self.colour else 'grey' if self.grey else 'colour'}"

    def covers(self, image: ImageInfo) -> bool:
        """Whether an image lies within these ranges and has one of these colour modes."""
        sizes = ((image.height, self.heights), (image.width, self.widths))
        return all(a <= side <= b for side, (a, b) in sizes) and (self.grey if image.grey else self.colour)
