"""Images of instances: tiles in one small PNG, framed in SVG by predicted class."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from io import BytesIO
from typing import NamedTuple

import numpy as np

from .colours import INK, colour
from .svg import shorten, svg, tag, text, tooltip

GAP, CAPTION = 8, 10  # pixels between tiles, and below each for a line of text


class Tile(NamedTuple):
    predicted: int
    caption: str
    tooltip: str
    wrong: bool  # False also where the true class is not known


def mosaic(images: np.ndarray, tiles: Sequence[Tile], columns: int, side: int, label: str) -> str:
    """The images, (n, h, w, 1 or 3) uint8, row by row as tiles; the longer side of a tile has `side` pixels."""
    height, width, channels = images.shape[1:]
    tile_height, tile_width = (max(1, round(side * edge / max(height, width))) for edge in (height, width))
    column_width, row_height = tile_width + GAP, tile_height + GAP + CAPTION
    letters, rows = max(4, column_width // 6), -(-len(tiles) // columns)
    sheet = np.zeros((rows * row_height, columns * column_width, channels + 1), np.uint8)  # the page is seen between
    marks = []
    for i, tile in enumerate(tiles):
        x, y = (i % columns) * column_width + GAP // 2, (i // columns) * row_height + GAP // 2
        place = np.s_[y : y + tile_height, x : x + tile_width]
        sheet[(*place, np.s_[:-1])], sheet[(*place, -1)] = _resize(images[i], tile_width, tile_height), 255
        frame = {"x": x - 1.5, "y": y - 1.5, "width": tile_width + 3, "height": tile_height + 3, "rx": 2}
        marks.append(tag("rect", tooltip(tile.tooltip), **frame, stroke=colour(tile.predicted), stroke_width=3))
        middle, baseline = x + tile_width / 2, y + tile_height + CAPTION + 1
        look = {"text_anchor": "middle", "fill": INK, "stroke": "none"}
        marks.append(text(shorten(tile.caption, letters), x=middle, y=baseline, **look))
        if tile.wrong:
            marks.append(_cross(x + tile_width - 1, y + 1))
    size = {"width": sheet.shape[1], "height": sheet.shape[0]}
    picture = tag("image", href=png_data_uri(sheet), **size)
    frames = tag("g", *marks, fill="transparent", font_size=9.0)
    return svg(size["width"], size["height"], [picture, frames], label)


def png_data_uri(image: np.ndarray) -> str:
    """An image, (h, w, channels) uint8, as a PNG in a data URI; 2 or 4 channels: the last one is the opacity.

    Colours are reduced to 256: a third of the size.
    """
    from PIL import Image

    picture = Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image)
    if image.shape[2] > 2:
        picture = picture.quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    file = BytesIO()
    picture.save(file, "PNG")  # the slowest compression takes ten times as long and makes a page 2 % smaller
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def _resize(image: np.ndarray, width: int, height: int) -> np.ndarray:
    from PIL import Image

    grey = image.shape[2] == 1
    enlarges = width >= image.shape[1]  # then pixels stay square and sharp
    method = Image.Resampling.NEAREST if enlarges else Image.Resampling.BOX
    resized = Image.fromarray(np.ascontiguousarray(image[:, :, 0] if grey else image)).resize((width, height), method)
    return np.asarray(resized).reshape(height, width, -1)


def _cross(x: float, y: float) -> str:
    lines = f"M{x - 2.5} {y - 2.5}l5 5m0 -5l-5 5"
    return tag("circle", cx=x, cy=y, r=5, fill="black") + tag("path", d=lines, stroke="white", stroke_width=1.5)
