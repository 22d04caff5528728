"""Instances that are images: tiles in one small PNG, outlined in SVG by predicted class."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from io import BytesIO
from typing import NamedTuple

import numpy as np

from .colours import colour
from .svg import drawing, hint, paragraph, shorten, tag, words, wrap_lines

GAP, CAPTION = 8, 10  # pixels between tiles, and under each for a line of words
LINES = 3  # of the words below a caption


class Tile(NamedTuple):
    position: int  # in the store
    guess: int
    caption: str
    hint: str
    wrong: bool  # False, too, where the truth is not known
    below: str = ""  # the caption


def mosaic(store: np.ndarray, tiles: Sequence[Tile], columns: int, side: int, label: str) -> str:
    """The tiles row by row, `side` pixels the longer way, as wide as `columns` of them."""
    height, width = store.shape[1:3]
    tall, wide = (max(1, round(side * edge / max(height, width))) for edge in (height, width))
    broad = wide + GAP
    letters = max(4, broad // 6)
    below = [wrap_lines(shorten(tile.below, LINES * letters), letters) for tile in tiles]
    high = tall + GAP + CAPTION * (1 + max(map(len, below)))
    rows = -(-len(tiles) // columns)
    sheet = np.full((rows * high, columns * broad, store.shape[3]), 255, np.uint8)
    images = store[[tile.position for tile in tiles]]  # (n, height, width, channels)
    marks = []
    for i, tile in enumerate(tiles):
        x, y = (i % columns) * broad + GAP // 2, (i // columns) * high + GAP // 2
        sheet[y : y + tall, x : x + wide] = _resized(images[i], wide, tall)
        frame = {"x": x - 1.5, "y": y - 1.5, "width": wide + 3, "height": tall + 3, "rx": 2}
        marks.append(tag("rect", hint(tile.hint), **frame, stroke=colour(tile.guess), stroke_width=3))
        middle, line = x + wide / 2, y + tall + CAPTION + 1
        look = {"text_anchor": "middle", "fill": "#1c2430", "stroke": "none"}
        marks.append(words(shorten(tile.caption, letters), x=middle, y=line, **look))
        if below[i]:
            marks.append(paragraph(below[i], middle, CAPTION, y=line, **look))
        if tile.wrong:
            marks.append(_cross(x + wide - 1, y + 1))
    size = {"width": sheet.shape[1], "height": sheet.shape[0]}
    picture = tag("image", href=png(sheet), **size)
    frames = tag("g", *marks, fill="transparent", font_size=9.0)
    return drawing(size["width"], size["height"], [picture, frames], label)


def png(image: np.ndarray) -> str:
    """(h, w, 1 or 3) uint8 as a data URI; colours are reduced to 256, which is a third of the size."""
    from PIL import Image

    picture = Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image)
    if picture.mode == "RGB":
        picture = picture.quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    file = BytesIO()
    picture.save(file, "PNG")  # its slowest compression takes ten times as long for 2 % of a page
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def _resized(image: np.ndarray, wide: int, tall: int) -> np.ndarray:
    from PIL import Image

    grey = image.shape[2] == 1
    enlarged = wide >= image.shape[1]  # whose pixels stay square and sharp
    how = Image.Resampling.NEAREST if enlarged else Image.Resampling.BOX
    small = Image.fromarray(np.ascontiguousarray(image[:, :, 0] if grey else image)).resize((wide, tall), how)
    return np.asarray(small).reshape(tall, wide, -1)


def _cross(x: float, y: float) -> str:
    lines = f"M{x - 2.5} {y - 2.5}l5 5m0 -5l-5 5"
    return tag("circle", cx=x, cy=y, r=5, fill="#1c2430") + tag("path", d=lines, stroke="#fff", stroke_width=1.5)
