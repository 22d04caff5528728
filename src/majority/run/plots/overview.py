"""A picture of many instances at their places, one colour each, with a legend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .colours import GRID, INK

if TYPE_CHECKING:
    from PIL import Image

SIDE = 1024  # pixels of the longer side of the map
MARGIN, LINE, BOX, LETTER = 12, 20, 12, 8  # pixels: around the map, per line of the legend, of a colour, of a letter
POINT = 3  # radius in pixels


class Legend(NamedTuple):
    colour: str
    text: str


def overview(
    places: np.ndarray,  # (n, 2)
    colours: Sequence[str],  # (n,)
    side: float | None,  # of the tile of an instance, whose lowest corner is its place; None: a point
    y_up: bool,
    legend: Sequence[Legend],
) -> Image.Image:
    from PIL import Image, ImageDraw

    extent = 0.0 if side is None else side
    low, high = places.min(axis=0), places.max(axis=0) + extent
    scale = SIDE / (float((high - low).max()) or 1.0)
    width, height = (max(1, round(float(length) * scale)) for length in high - low)
    text_width = max((BOX + 2 * MARGIN + LETTER * len(line.text) for line in legend), default=0)
    size = (max(width + 2 * MARGIN, text_width), height + 3 * MARGIN + LINE * len(legend))
    picture = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(picture)
    draw.rectangle((MARGIN - 1, MARGIN - 1, MARGIN + width, MARGIN + height), outline=GRID)
    corners = np.stack([places, places + extent], axis=1) - low  # (n, 2 corners, 2)
    corners *= scale
    if y_up:
        corners[:, :, 1] = height - corners[:, ::-1, 1]
    corners += MARGIN
    for (start, end), fill in zip(corners, colours, strict=True):
        if side is None:
            x, y = start
            draw.ellipse((x - POINT, y - POINT, x + POINT, y + POINT), fill=fill)
        else:
            draw.rectangle((*start, *np.maximum(end - 1, start)), fill=fill)
    for number, line in enumerate(legend):
        top = height + 2 * MARGIN + LINE * number
        draw.rectangle((MARGIN, top, MARGIN + BOX, top + BOX), fill=line.colour)
        draw.text((2 * MARGIN + BOX, top), line.text, fill=INK)
    return picture
