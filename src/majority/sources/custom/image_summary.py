"""What image files were before they were made alike: odd ones among them, and what a run was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .images import Picture


class ImageFileSummary(NamedTuple):
    """The files of a source, all together.

    >>> print(Originals((28, 40), (28, 30), grey=False, colour=True))
    28 to 40 high and 28 to 30 wide, colour
    """

    heights: tuple[int, int]  # least, most
    widths: tuple[int, int]
    grey: bool  # some are
    colour: bool

    @classmethod
    def of(cls, pictures: Sequence[Picture]) -> ImageFileSummary:
        heights, widths = [picture.height for picture in pictures], [picture.width for picture in pictures]
        grey = sum(picture.grey for picture in pictures)
        return cls((min(heights), max(heights)), (min(widths), max(widths)), grey > 0, grey < len(pictures))

    @classmethod
    def of_shape(cls, height: int, width: int, channels: int) -> ImageFileSummary:
        return cls((height, height), (width, width), channels == 1, channels == 3)

    @property
    def sizes(self) -> str:
        """Where both sides vary, no image need have the least or the most of both."""
        (low, high), (narrow, wide) = self.heights, self.widths
        if low != high and narrow != wide:
            return f"{low} to {high} high and {narrow} to {wide} wide"
        return f"{low}x{narrow}" + ("" if (low, narrow) == (high, wide) else f" up to {high}x{wide}")

    def __str__(self) -> str:
        return f"{self.sizes}, {' and '.join(name for name in ('grey', 'colour') if getattr(self, name))}"

    def include(self, picture: Picture) -> bool:
        sizes = ((picture.height, self.heights), (picture.width, self.widths))
        return all(a <= side <= b for side, (a, b) in sizes) and (self.grey if picture.grey else self.colour)

    def changes(self, shape: tuple[int, ...]) -> str:
        """How they became of this shape; "" where they had it.

        >>> Originals((28, 40), (28, 30), grey=True, colour=True).changes((64, 64, 3))
        ', resized from 28 to 40 high and 28 to 30 wide, some grey'
        """
        kept = self.sizes == f"{shape[0]}x{shape[1]}"
        return ("" if kept else f", resized from {self.sizes}") + (", some grey" if self.grey and self.colour else "")
