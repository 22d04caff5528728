"""Drawings of pages: learning curves, dots with intervals, maps and images, as data for their templates."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np

from .blocks import macros


def learning_curves(title: str, curves: Mapping[str, Sequence[float]], kept: int, percent: bool = False) -> str:
    """Lines over the epochs from 1, and a dot at the epoch that was kept; `percent` for values from 0 to 1."""
    lines = {name: values for name, values in curves.items() if values}
    values, last = [value for of_line in lines.values() for value in of_line], max(map(len, lines.values()))
    ticks = np.linspace(0, 1, 6).tolist() if percent else nice_ticks(min(*values, 0), max(values))

    def x(epoch: float) -> float:
        return 52 + 394 * ((epoch - 1) / (last - 1) if last > 1 else 0.5)

    def y(value: float) -> float:
        return 212 - 178 * (value - ticks[0]) / (ticks[-1] - ticks[0])

    epochs = sorted({1, *(int(tick) for tick in nice_ticks(0, last) if 1 <= tick <= last)})
    return macros("blocks").curves(title, lines, kept, x, y, epochs, ticks, percent)


def dot_plot(dots: Sequence[Mapping[str, Any]], lines: Mapping[str, float]) -> str:
    """A row per dot: name, mean, low and high (None: no interval), shown (beside it); `lines` are what the dots are
    compared with."""
    ends = [dot[name] for dot in dots for name in ("mean", "low", "high") if dot[name] is not None]
    ticks = nice_ticks(min([*ends, *lines.values()]), max([*ends, *lines.values()]))

    def place(value: float) -> float:
        return round(100 * (value - ticks[0]) / (ticks[-1] - ticks[0]), 2)

    return macros("blocks").dots(dots, lines, ticks, place)


def nice_ticks(low: float, high: float) -> list[float]:
    """Round numbers at equal distances that enclose `low` and `high`.

    >>> nice_ticks(0, 2.6)
    [0.0, 1.0, 2.0, 3.0]
    """
    span = high - low or 1.0
    step = 10 ** math.floor(math.log10(span / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 10) for i in range(first, max(last, first + 1) + 1)]


def instance_map(coordinates: np.ndarray, predicted: np.ndarray) -> dict[str, Any]:
    """Places on a drawing 300 pixels wide, by predicted class.

    Whole coordinates are pixels, of which y grows downwards; of others it grows upwards, as on maps.
    """
    width, padding, y_up = 300.0, 8.0, coordinates.dtype.kind == "f"
    low, span = coordinates.min(axis=0).astype(float), np.ptp(coordinates, axis=0).astype(float)
    scale = (width - 2 * padding) / (span.max() or 1.0)
    height = max(float(span[1] * scale), 60.0) + 2 * padding
    places = (coordinates - low - span / 2) * [1, -1 if y_up else 1] * scale + [width / 2, height / 2]
    places = places.round(1)
    (left, right), (first, last) = zip(low, low + span, strict=True)
    return {
        "n": len(coordinates),
        "height": height,
        "dot": round(min(8.0, max(1.5, 0.8 * math.sqrt(width * height / len(coordinates)))), 2),
        "places": {int(of): places[predicted == of].tolist() for of in np.unique(predicted)},
        "extent": f"x {left:g} to {right:g}, y {first:g} to {last:g} {'upwards' if y_up else 'downwards'}",
    }


def evenly_spaced(positions: np.ndarray, limit: int) -> np.ndarray:
    """At most `limit` of the positions."""
    return positions[np.linspace(0, len(positions) - 1, min(limit, len(positions))).astype(int)]


def picture_strip(images: np.ndarray, side: int) -> dict[str, Any]:
    """The images, (n, h, w, 1 or 3) uint8, one below the other; the longer side of each has at most `side` pixels."""
    n, height, width, channels = images.shape
    shrunk = min(1, side / max(height, width))
    size = (max(1, round(width * shrunk)), n * max(1, round(height * shrunk)))
    uri = png_data_uri(images.reshape(n * height, width, channels), size)
    return {"uri": uri, "ratio": round(width / height, 3)}


def png_data_uri(image: np.ndarray, size: tuple[int, int] | None = None) -> str:
    """An image, (h, w, 1 or 3) uint8, as a PNG of this width and height in a data URI.

    Colours are reduced to 256: a third of the size.
    """
    from PIL import Image

    picture = Image.fromarray(np.ascontiguousarray(image[:, :, 0] if image.shape[2] == 1 else image))
    if size is not None:
        picture = picture.resize(size, Image.Resampling.BOX)
    if image.shape[2] > 1:
        picture = picture.quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    file = BytesIO()
    picture.save(file, "PNG")  # the slowest compression takes ten times as long and makes a page 2 % smaller
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
