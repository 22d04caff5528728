"""A picture of many instances at their places, one colour each, with axes and a legend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .axes import Axes, nice_ticks
from .colours import FAINT, GRID, INK

if TYPE_CHECKING:
    from PIL import Image, ImageDraw

SIDE = 1024  # pixels of the longer side of the map
LEFT, MARGIN, BELOW, LINE, BOX = 72, 12, 28, 22, 13  # pixels: around the map, per line of the legend, of a colour
POINT = 3  # radius in pixels
FONT_SIZE = 15


def overview(
    places: np.ndarray,  # (n, 2)
    colours: Sequence[str],  # (n,)
    side: float | None,  # of the tile of an instance, whose lowest corner is its place; None: a point
    y_up: bool,
    legend: Mapping[str, str],  # text -> colour
) -> Image.Image:
    from PIL import Image, ImageDraw, ImageFont

    low, high = places.min(axis=0), places.max(axis=0) + (side or 0.0)
    scale = SIDE / (float((high - low).max()) or 1.0)
    high = np.maximum(high, low + 1 / scale)  # a pixel at least
    width, height = (round(float(length) * scale) for length in high - low)
    font = ImageFont.load_default(FONT_SIZE)
    text_width = max((2 * MARGIN + BOX + round(font.getlength(text)) for text in legend), default=0)
    bottom = MARGIN + height + BELOW
    picture = Image.new("RGB", (LEFT + max(width + MARGIN, text_width), bottom + LINE * len(legend) + MARGIN), "white")
    draw = ImageDraw.Draw(picture)
    ends = (float(low[1]), float(high[1])) if y_up else (float(high[1]), float(low[1]))
    axes = Axes(LEFT, LEFT + width, MARGIN, MARGIN + height, (float(low[0]), float(high[0])), ends)
    _draw_axes(draw, axes, font)
    for (x, y), fill in zip(places, colours, strict=True):
        left, top = axes.x(x), axes.y(y)
        if side is None:
            draw.ellipse((left - POINT, top - POINT, left + POINT, top + POINT), fill=fill)
        else:
            top, lower = sorted((top, axes.y(y + side)))
            right = axes.x(x + side)
            draw.rectangle((left, top, max(right - 1, left), max(lower - 1, top)), fill=fill)
    for number, (text, colour) in enumerate(legend.items()):
        top = bottom + LINE * number
        draw.rectangle((LEFT, top, LEFT + BOX, top + BOX), fill=colour)
        draw.text((LEFT + BOX + MARGIN, top - 3), text, fill=INK, font=font)
    return picture


def _draw_axes(draw: ImageDraw.ImageDraw, axes: Axes, font: Any) -> None:
    """The frame of the map, and numbers at some values of x and y."""
    draw.rectangle((axes.left - 1, axes.top - 1, axes.right, axes.bottom), outline=GRID)
    first, last = sorted(axes.y_range)
    for x in (tick for tick in nice_ticks(*axes.x_range) if axes.x_range[0] <= tick <= axes.x_range[1]):
        draw.line((axes.x(x), axes.bottom, axes.x(x), axes.bottom + 5), fill=FAINT)
        draw.text((axes.x(x), axes.bottom + 6), f"{x:g}", fill=FAINT, font=font, anchor="mt")
    for y in (tick for tick in nice_ticks(first, last) if first <= tick <= last):
        draw.line((axes.left - 6, axes.y(y), axes.left - 1, axes.y(y)), fill=FAINT)
        draw.text((axes.left - 8, axes.y(y)), f"{y:g}", fill=FAINT, font=font, anchor="rm")
